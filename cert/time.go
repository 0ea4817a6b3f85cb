package cert

import "time"

// parseTime reads a UTCTime or GeneralizedTime as leniently as it can be done
// without guessing: seconds (and, in GeneralizedTime, minutes) may be missing,
// GeneralizedTime may have fractions of a second, and the zone is Z, an offset
// or, missing, taken for UTC. The result is in UTC.
func parseTime(tag byte, b []byte) (time.Time, bool) {
	var year, month, day, hour, minute, second, nsec int
	var ok bool
	switch tag {
	case tagUTCTime:
		if year, b, ok = digits(b, 2, 0, 99); !ok {
			return time.Time{}, false
		}
		if year < 50 { // RFC 5280 section 4.1.2.5.1
			year += 100
		}
		year += 1900
	case tagGeneralizedTime:
		if year, b, ok = digits(b, 4, 0, 9999); !ok {
			return time.Time{}, false
		}
	default:
		return time.Time{}, false
	}
	if month, b, ok = digits(b, 2, 1, 12); !ok {
		return time.Time{}, false
	}
	if day, b, ok = digits(b, 2, 1, 31); !ok {
		return time.Time{}, false
	}
	if hour, b, ok = digits(b, 2, 0, 23); !ok {
		return time.Time{}, false
	}
	hasMinute := startsWithDigit(b)
	if hasMinute {
		if minute, b, ok = digits(b, 2, 0, 59); !ok {
			return time.Time{}, false
		}
	} else if tag == tagUTCTime {
		return time.Time{}, false
	}
	if hasMinute && startsWithDigit(b) {
		if second, b, ok = digits(b, 2, 0, 60); !ok { // 60 is a leap second
			return time.Time{}, false
		}
		if tag == tagGeneralizedTime && len(b) > 1 && (b[0] == '.' || b[0] == ',') && startsWithDigit(b[1:]) {
			nsec, b = fraction(b[1:])
		}
	}
	offset, ok := parseZone(b)
	if !ok {
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, nsec, time.UTC)
	if second < 60 && t.Day() != day {
		return time.Time{}, false // February 30
	}
	return t.Add(-offset), true
}

// parseZone reads all of b as a time zone and returns its offset from UTC.
func parseZone(b []byte) (offset time.Duration, ok bool) {
	if len(b) == 0 || len(b) == 1 && b[0] == 'Z' {
		return 0, true
	}
	if len(b) != 3 && len(b) != 5 || b[0] != '+' && b[0] != '-' {
		return 0, false
	}
	hours, rest, ok := digits(b[1:], 2, 0, 23)
	if !ok {
		return 0, false
	}
	minutes := 0
	if len(rest) > 0 {
		if minutes, _, ok = digits(rest, 2, 0, 59); !ok {
			return 0, false
		}
	}
	offset = time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if b[0] == '-' {
		offset = -offset
	}
	return offset, true
}

// digits reads n decimal digits as a number in [low, high].
func digits(b []byte, n, low, high int) (v int, rest []byte, ok bool) {
	if len(b) < n {
		return 0, b, false
	}
	for _, d := range b[:n] {
		if d < '0' || d > '9' {
			return 0, b, false
		}
		v = v*10 + int(d-'0')
	}
	return v, b[n:], low <= v && v <= high
}

func startsWithDigit(b []byte) bool { return len(b) > 0 && '0' <= b[0] && b[0] <= '9' }

// fraction reads the digits after a decimal point as nanoseconds; those beyond
// the ninth are dropped.
func fraction(b []byte) (nsec int, rest []byte) {
	scale := int(time.Second)
	for startsWithDigit(b) {
		scale /= 10
		nsec += int(b[0]-'0') * scale
		b = b[1:]
	}
	return nsec, b
}
