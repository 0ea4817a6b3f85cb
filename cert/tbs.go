package cert

import "fmt"

// PoisonProblem returns nil if c has no poison extension or a valid one, and
// else an error that wraps ErrPoison and says what is wrong with it.
func (c *Certificate) PoisonProblem() error {
	if c.lay.poisonProblem == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrPoison, c.lay.poisonProblem)
}

// PrecertTBS returns the TBSCertificate of the precertificate c that is signed
// into the log (RFC 6962 section 3.2): with the poison extension cut out and,
// if signer, a Precertificate Signing Certificate, is not nil, with the issuer
// and the AuthorityKeyIdentifier of signer.
//
// It is made by cutting: every byte but these, and the length headers around
// them, stays as submitted, whether it is DER or not.
//
// Errors wrap ErrPoison if c is not a precertificate, and else ErrPrecertTBS.
func (c *Certificate) PrecertTBS(signer *Certificate) ([]byte, error) {
	lay := &c.lay
	if c.Poison == NoPoison {
		return nil, fmt.Errorf("%w: the certificate has no poison extension, so it is not a precertificate", ErrPoison)
	}
	if err := c.PoisonProblem(); err != nil {
		return nil, err
	}
	if lay.count == 1 {
		return nil, unloggable("the poison is its only extension, so there is no final certificate to it")
	}
	if !lay.explicit.minimal || !lay.extensions.minimal {
		// The final certificate's header could be written in several ways.
		return nil, unloggable("the header of its extensions is not DER")
	}
	var aki *akiSwap
	issuer := c.RawIssuer
	if signer != nil {
		var err error
		if aki, err = c.swapAKI(signer); err != nil {
			return nil, err
		}
		issuer = signer.RawIssuer
	}
	return c.cut(issuer, aki), nil
}

func unloggable(problem string) error { return fmt.Errorf("%w: %s", ErrPrecertTBS, problem) }

// akiSwap is the AuthorityKeyIdentifier extension of the precertificate with
// the value of the signer's.
type akiSwap struct {
	value                 []byte
	before, after         []byte // of the OCTET STRING, inside the extension
	inner, size, oldStart int    // length of the content, of the whole; where the old one stands
}

// swapAKI returns nil if neither certificate has an AuthorityKeyIdentifier.
func (c *Certificate) swapAKI(signer *Certificate) (*akiSwap, error) {
	lay := &c.lay
	switch {
	case lay.akis == 0 && signer.lay.akis == 0:
		return nil, nil
	case lay.akis > 0 && signer.lay.akis == 0:
		return nil, unloggable("it has an AuthorityKeyIdentifier, but its Precertificate Signing Certificate has none to replace it (RFC 6962 section 3.2)")
	case lay.akis == 0:
		return nil, unloggable("it has no AuthorityKeyIdentifier, but its Precertificate Signing Certificate has one (RFC 6962 section 3.2)")
	case lay.akis > 1 || signer.lay.akis > 1:
		return nil, unloggable("there is more than one AuthorityKeyIdentifier in it or in its Precertificate Signing Certificate")
	case !lay.akiExtension.minimal || !lay.aki.minimal:
		return nil, unloggable("the header of its AuthorityKeyIdentifier is not DER")
	}
	s := &akiSwap{
		before:   c.Raw[lay.akiExtension.body:lay.aki.start],
		after:    c.Raw[lay.aki.end:lay.akiExtension.end],
		oldStart: lay.akiExtension.start,
	}
	s.value, _ = signer.AuthorityKeyID()
	s.inner = len(s.before) + headerSize(len(s.value)) + len(s.value) + len(s.after)
	s.size = headerSize(s.inner) + s.inner
	return s, nil
}

func (s *akiSwap) append(b []byte) []byte {
	b = appendHeader(b, tagSequence, s.inner)
	b = append(b, s.before...)
	b = appendHeader(b, tagOctetString, len(s.value))
	b = append(b, s.value...)
	return append(b, s.after...)
}

// cut assembles the TBSCertificate without the poison, with the given issuer
// and, if aki is not nil, its extension in place of the old one.
func (c *Certificate) cut(issuer []byte, aki *akiSwap) []byte {
	lay := &c.lay
	tbsEnd := lay.tbs.end
	inner := lay.extensions.end - lay.extensions.body - (lay.poison.end - lay.poison.start)
	if aki != nil {
		inner += aki.size - (lay.akiExtension.end - lay.akiExtension.start)
	}
	sequence := headerSize(inner) + inner
	content := (lay.issuer.start - lay.tbs.body) + len(issuer) + (lay.explicit.start - lay.issuer.end) +
		headerSize(sequence) + sequence + (tbsEnd - lay.explicit.end)

	b := make([]byte, 0, headerSize(content)+content)
	b = appendHeader(b, tagSequence, content)
	b = append(b, c.Raw[lay.tbs.body:lay.issuer.start]...)
	b = append(b, issuer...)
	b = append(b, c.Raw[lay.issuer.end:lay.explicit.start]...)
	b = appendHeader(b, tagExtensions, sequence)
	b = appendHeader(b, tagSequence, inner)
	b = c.appendExtensions(b, aki)
	return append(b, c.Raw[lay.explicit.end:tbsEnd]...)
}

// appendExtensions copies the extensions, dropping the poison and swapping the
// AuthorityKeyIdentifier, whichever comes first.
func (c *Certificate) appendExtensions(b []byte, aki *akiSwap) []byte {
	lay := &c.lay
	pos := lay.extensions.body
	if aki != nil && aki.oldStart < lay.poison.start {
		b = append(b, c.Raw[pos:aki.oldStart]...)
		b, pos = aki.append(b), lay.akiExtension.end
	}
	b = append(b, c.Raw[pos:lay.poison.start]...)
	pos = lay.poison.end
	if aki != nil && aki.oldStart > lay.poison.start {
		b = append(b, c.Raw[pos:aki.oldStart]...)
		b, pos = aki.append(b), lay.akiExtension.end
	}
	return append(b, c.Raw[pos:lay.extensions.end]...)
}
