package own

// quirk is a line of the tables of docs/admission.md: something odd about
// chains, the rows of the indexes that have it, and why daybook does what it
// does with them. What it and its peers do is not written here but taken from
// answers and indexes.
type quirk struct {
	what string
	rows string // the parts of their IDs before the first hyphen
	why  string
}

// quirkTable is a table with its heading.
type quirkTable struct {
	heading string
	quirks  []quirk
}

// quirkTables have every row of both indexes once; the generator sees to it.
var quirkTables = []quirkTable{
	{"The path", []quirk{
		{"ordinary chains, with the root and without", "o01 o02 o03 o06 o07 o08 o23 sa01 sa02 sa20 sb53b", "RFC 6962 lets the root be left out; either way it is one entry, and the root is recorded"},
		{"leaf issued by an accepted root", "sa03 sa04 o25b", "the root alone is the chain"},
		{"an accepted root by itself", "o35", "there is no issuer to record"},
		{"a path by cross-certificates", "o04 o05 sa28", "the submitted path is valid, and is the one recorded"},
		{"one certificate by two paths", "sc23 sc23b", "one entry: what is signed is the same; the issuers of the first path are recorded"},
		{"long chains", "sa05 sa06", "up to 100 certificates, each verified once"},
		{"the accepted root issued again under its name and key", "o09 sa27", "a link like any other: both are recorded, the accepted one last"},
		{"two accepted roots with one name and key", "o10", "the one submitted is recorded"},
		{"names that are equal, in other string types", "o31 sa18", "names are compared byte by byte, as all clients do"},
		{"accepted roots that are not self-signed, are signed with MD2, have a negative serial number", "o30 o37 o38", "a trust anchor is trusted as it is given"},
		{"wrong order", "o14 sa08 sa09", "RFC 6962 wants each certificate to certify the one before; the text says which is out of place"},
		{"extraneous certificates", "o16 o17 o34 sa21", "the same"},
		{"sixty intermediates of one name and key", "sa10", "the order is given, so no path is searched for"},
		{"two CAs that certify each other", "sa12", "every link is valid, and no certificate comes twice"},
		{"intermediate missing, root unknown, impostor of a root", "o18 o19 sa25 sa26", "no valid path"},
		{"issuer that is no CA, or lacks basicConstraints", "o26 o27 sa13", "else every subscriber could fill the log"},
		{"issuer that is a CA without keyCertSign", "sa14", "its issuer said that it may not issue"},
		{"path length or name constraints violated", "o28 sa07", "such a certificate is what a log should show"},
		{"anything expired, dates that run backwards", "o20 o21 sa17 sb32", "only the leaf's NotAfter counts, against the window"},
		{"AuthorityKeyIdentifier of another key", "sa19", "it is a hint"},
	}},
	{"Signatures and encodings outside of what is signed", []quirk{
		{"a signature that does not verify", "sa15 sa16", "no valid path"},
		{"SHA-1", "o13 sb52 sb52c", "Chrome's merge delay monitor needs it, and refusing would hide what a CA has signed"},
		{"MD5, MD2", "o36 sb52b", "such a signature proves nothing"},
		{"P-384, P-521, Ed25519 in the path", "o29 sb53c sb53d", "all verify"},
		{"a signature with unused bits", "sa31", "anybody can make this variant of a certificate, and there is no end to them"},
		{"a byte more within the signature", "sa33", "the same"},
		{"outer algorithm unlike the inner one", "sb22", "the same: the outer one is not signed"},
		{"trailing bytes, BER lengths around the certificate", "sa22 sa23 sa24", "the same"},
		{"the other ECDSA signature, (r, n-s)", "sa30 sa32", "it verifies; a certificate has one such twin at most"},
		{"one TBSCertificate with two signatures of the issuer", "sc21 sc21b", "two certificates, so two entries"},
		{"what is no certificate", "sb64 sb65 sb66 sb67", "there is nothing to log"},
	}},
	{"Within the certificate", []quirk{
		{"serial numbers: negative, zero, long, not minimal", "sb01 sb02 sb03 sb04", "a log shows certificates that strict parsers refuse, and keeps every byte"},
		{"versions: v1, v4", "sb19 sb20", "the same"},
		{"extensions: twice, critical though they should not be, unknown and critical, none at all, policies twice", "sb05 sb06 sb07 sb08 sb21 sb23 sb24", "the same"},
		{"constraints that make no sense: path length of a leaf, empty keyUsage, a leaf that is a CA", "sb25 sb26 sb47", "the same"},
		{"names: odd string types and characters, no UTF-8, NUL, empty", "sb10 sb11 sb12 sb13 sb14 sb15 sb16 sb17 sb17b sb18 sb48 sb49", "the same; names are escaped wherever they are shown"},
		{"times: GeneralizedTime too early, UTCTime without seconds", "sb30 sb31", "the same, as long as NotAfter can be told"},
		{"booleans that are not DER", "sb57 sb58", "the same"},
		{"unique identifiers, embedded SCT lists that are broken or empty", "sb45 sb46 sb51", "the same"},
		{"the leaf's key: DSA, Ed25519, ML-DSA, P-224, RSA-1024, broken RSA, no point of the curve, empty, without parameters, its issuer's", "o22 sb09 sb39 sb40 sb41 sb41c sb42 sb42c sb44 sb54 sb59", "the leaf's key verifies nothing here"},
		{"size: 45 kB of names, 20 kB of an extension, 400 RDNs, 10,000 levels of nesting", "sb38 sb55 sb56 sb61 sb62 sb63", "requests of up to 512 KiB; nothing recurses"},
	}},
	{"What a log may leave to others", []quirk{
		{"leaf without extended key usage", "o15", "usable for serverAuth, since nothing says otherwise"},
		{"extended key usage without serverAuth: S/MIME, clientAuth, any alone, empty", "o24 sb27 sb28 sb29", "left to other logs, unless `accept_any_eku` is set"},
		{"NotAfter at the window's start, in its last second", "sb33 sb35", "the start is inclusive"},
		{"NotAfter before the start, at the limit, in 9999", "sb34 sb36 sb37", "the limit is exclusive. The peers were measured without a window"},
	}},
	{"Precertificates", []quirk{
		{"ordinary, with its final certificate", "sc01 sc03 sc03b", "two entries; the TBSCertificate is cut, never encoded anew"},
		{"explicit critical FALSE in both", "sc04 sc04b", "logged byte for byte. The peers log other bytes, and their SCT does not verify for the final certificate"},
		{"one TBSCertificate with two signatures", "sc19 sc19b", "one entry: what is signed is the same"},
		{"one TBSCertificate under two issuer keys", "sc20", "another entry: issuer_key_hash differs"},
		{"by way of a Precertificate Signing Certificate", "o11 o25 sc05 sc05b sc07 sc08", "issuer and AuthorityKeyIdentifier become those of the final certificate. `refuse_precert_signing` refuses them all"},
		{"whose AuthorityKeyIdentifier the signing certificate lacks", "sc06", "RFC 6962 section 3.2 wants both or neither. The peers drop it, and their SCT does not verify for the final certificate"},
		{"signing certificate below another one", "sc10", "it must be certified by the CA that signs the final certificate"},
		{"signing certificate that is no CA, or without its issuer", "o12 sc09", "no valid path"},
		{"final certificate of a signing certificate", "sc11", "it should not exist, so it should be seen"},
		{"poison not critical, not NULL, twice", "sc12 sc13 sc13b sc14", "not a precertificate by RFC 6962 section 3.1"},
		{"poison as the only extension", "sc18", "there is no final certificate to it. The peers do not agree on its TBSCertificate"},
		{"the wrong endpoint", "o32 o33 sc16 sc17", "the text names the right one"},
	}},
}
