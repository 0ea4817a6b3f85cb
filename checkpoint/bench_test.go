package checkpoint

import "testing"

func BenchmarkSignSCT(b *testing.B) {
	s, leaf := testSigner(b, "log.example/2027h1"), testLeaf(b, true)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.SignSCT(leaf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSignTreeHead(b *testing.B) {
	s := testSigner(b, "log.example/2027h1")
	b.Run("both", func(b *testing.B) { benchmarkSignTreeHead(b, s) })
	k := s.keys
	k.MLDSA = nil
	plain, err := NewSigner(s.Origin(), k)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("RFC6962", func(b *testing.B) { benchmarkSignTreeHead(b, plain) })
}

func benchmarkSignTreeHead(b *testing.B, s *Signer) {
	b.ReportAllocs()
	// How often ML-DSA starts over depends on the message.
	timestamp := int64(testTimestamp)
	for b.Loop() {
		timestamp += 1000
		if _, err := s.SignTreeHead(testTree, timestamp); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	s := testSigner(b, "log.example/2027h1")
	signed := mustSign(b, s, testTree, testTimestamp)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Verifier().Verify(signed); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifySCT(b *testing.B) {
	s, leaf := testSigner(b, "log.example/2027h1"), testLeaf(b, true)
	sig, err := s.SignSCT(leaf)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Verifier().VerifySCT(leaf, sig); err != nil {
			b.Fatal(err)
		}
	}
}
