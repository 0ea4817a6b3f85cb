package difftest

import (
	"math/rand/v2"
	"slices"
)

// mutate returns a changed copy of a certificate: an octet anywhere, or an
// element of any depth, with the lengths around it put right.
func mutate(rnd *rand.Rand, der []byte) []byte {
	top := split(der)
	if len(top) != 3 || rnd.IntN(4) == 0 {
		der = slices.Clone(der)
		der[rnd.IntN(len(der))] = byte(rnd.IntN(256))
		return der
	}
	if i := rnd.IntN(20); i < 2 {
		top[i+1] = mutateElement(rnd, top[i+1])
		return tlv(0x30, top...)
	}
	fields := split(top[0])
	last := len(fields) - 1
	if last >= 0 && fields[last][0] == 0xa3 && rnd.IntN(2) == 0 {
		fields[last] = mutateExtensions(rnd, fields[last])
	} else if last >= 0 {
		i := rnd.IntN(len(fields))
		fields[i] = mutateElement(rnd, fields[i])
	}
	top[0] = tlv(0x30, fields...)
	return tlv(0x30, top...)
}

func mutateExtensions(rnd *rand.Rand, explicit []byte) []byte {
	inner := split(explicit)
	if len(inner) != 1 {
		return explicit
	}
	extensions := split(inner[0])
	if len(extensions) == 0 {
		return explicit
	}
	i, j := rnd.IntN(len(extensions)), rnd.IntN(len(extensions))
	switch rnd.IntN(6) {
	case 0:
		extensions = append(extensions, extensions[i])
	case 1:
		extensions[i], extensions[j] = extensions[j], extensions[i]
	case 2:
		extensions = slices.Delete(extensions, i, i+1)
	default:
		extensions[i] = mutateElement(rnd, extensions[i])
	}
	return tlv(0xa3, tlv(0x30, extensions...))
}

func mutateElement(rnd *rand.Rand, e []byte) []byte {
	if len(e) < 2 {
		return e
	}
	body := slices.Clone(content(e))
	constructed := e[0]&0x20 != 0 || e[0] == 0x04 && len(body) > 2 && body[0] == 0x30
	if parts := split(e); constructed && len(parts) > 0 && rnd.IntN(8) > 0 {
		i := rnd.IntN(len(parts))
		switch rnd.IntN(10) {
		case 0:
			parts = append(parts, parts[i])
		case 1:
			parts = slices.Delete(parts, i, i+1)
		case 2:
			parts = slices.Insert(parts, i, []byte{0x01, 0x01, byte(rnd.IntN(3) - 1)})
		default:
			parts[i] = mutateElement(rnd, parts[i])
		}
		return tlv(e[0], parts...)
	}
	switch rnd.IntN(6) {
	case 0:
		body = body[:rnd.IntN(len(body)+1)]
	case 1:
		body = append(body, byte(rnd.IntN(256)))
	case 2:
		return tlv(byte(rnd.IntN(256)), body)
	case 3:
		if len(body) < 1<<16 { // a longer length than DER wants
			return append([]byte{e[0], 0x83, 0, byte(len(body) >> 8), byte(len(body))}, body...)
		}
	default:
		if len(body) > 0 {
			body[rnd.IntN(len(body))] = byte(rnd.IntN(256))
		}
	}
	return tlv(e[0], body)
}
