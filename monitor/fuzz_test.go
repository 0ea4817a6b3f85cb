package monitor

import (
	"crypto/sha256"
	"strings"
	"testing"
)

// FuzzInfo: what comes out of log.v3.json fits together.
func FuzzInfo(f *testing.F) {
	f.Add([]byte(`{"log_id":"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=","key":"","submission_url":"https://x/"}`))
	f.Add([]byte(`{"log_id":"bjQLnP+zepicpUTmu3gKLHiQHT+zNzh2hRGjBhevoB0=","key":"AA==","submission_url":"https://log.example:8443/a/b/","temporal_interval":{"start_inclusive":"2027-01-01T00:00:00Z","end_exclusive":"2027-07-01T00:00:00Z"}}`))
	f.Add([]byte(`{"log_id":"bjQLnP+zepicpUTmu3gKLHiQHT+zNzh2hRGjBhevoB0=","key":"AA==","submission_url":"http://127.0.0.1:1/"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		info, err := parseInfo(b)
		if err != nil {
			if _, ok := err.(*Fault); !ok {
				t.Errorf("error %v is no fault", err)
			}
			return
		}
		if len(info.Key) == 0 || info.LogID != sha256.Sum256(info.Key) || strings.HasSuffix(info.Origin, "/") {
			t.Errorf("info %+v", info)
		}
	})
}

// FuzzNames: a line that reads as another one says the same.
func FuzzNames(f *testing.F) {
	f.Add([]byte(`{"Timestamp":1796061443463,"Subject":{"CommonName":"a.example"},"DNS":["a.example"],"IP":["192.0.2.1"]}`))
	f.Add([]byte(`{"Timestamp":1,"Other":[[[{}]]]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := readNames(b)
		if err == nil && (n.DNS != nil && len(n.DNS) == 0 || n.IP != nil && len(n.IP) == 0 || n.Subject != nil && len(n.Subject) == 0) {
			t.Errorf("%q: empty members are told apart from absent ones: %+v", b, n)
		}
	})
}
