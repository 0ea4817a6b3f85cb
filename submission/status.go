package submission

import (
	"context"
	"errors"
	"net/http"

	"github.com/daybook-ct/daybook/sequencer"
)

// Reasons for which a request is answered with anything but an SCT, beside
// those of package sequencer.
var (
	errMethod         = errors.New("method not allowed")
	errNotFound       = errors.New("no such endpoint")
	errBody           = errors.New("body could not be read")
	errTooLarge       = errors.New("body too large")
	errJSON           = errors.New("malformed JSON")
	errBase64         = errors.New("malformed base64")
	errChainLength    = errors.New("chain empty or too long")
	errCertificate    = errors.New("malformed certificate")
	errWrongEndpoint  = errors.New("wrong endpoint")
	errPoison         = errors.New("malformed poison extension")
	errOrder          = errors.New("chain out of order or broken")
	errIssuer         = errors.New("certificate may not issue")
	errWindow         = errors.New("outside the NotAfter window")
	errEKU            = errors.New("not a server certificate")
	errUnknownRoot    = errors.New("unknown root")
	errSignature      = errors.New("signature does not verify")
	errTooMuchWork    = errors.New("too many signatures to check")
	errPrecertSigning = errors.New("precertificate signing certificate not usable")
	errTBS            = errors.New("no TBSCertificate to log")
	errOverloaded     = errors.New("too many submissions in progress")
	errClientGone     = errors.New("client is gone")
	errTimeout        = errors.New("request timed out")
	errInternal       = errors.New("internal error")
)

// answer is how one reason is told: to the client by status and sentence, to
// the operator by the label of the metric.
type answer struct {
	reason   error
	status   int
	sentence string // a [refusal] may say it more exactly
	label    string
}

// statusClientGone stands in metrics and events alone.
const statusClientGone = 499

// answers is the one table of what a submitter is told. The first match
// counts; what matches nothing is answered as the last row.
var answers = []answer{
	{errMethod, http.StatusMethodNotAllowed, "This method is not allowed here.", "method"},
	{errNotFound, http.StatusNotFound, "There is no such endpoint.", "not-found"},
	{errBody, http.StatusBadRequest, "The request body could not be read to its end.", "body"},
	{errTooLarge, http.StatusRequestEntityTooLarge, "The request body is larger than 512 KiB.", "too-large"},
	{errJSON, http.StatusBadRequest, "The JSON of the request is malformed.", "json"},
	{errBase64, http.StatusBadRequest, "The chain is not in valid base64.", "base64"},
	{errChainLength, http.StatusBadRequest, "The chain is empty or too long.", "chain-length"},
	{errCertificate, http.StatusBadRequest, "The chain has a malformed certificate.", "certificate"},
	{errWrongEndpoint, http.StatusBadRequest, "Certificates go to add-chain and precertificates to add-pre-chain.", "wrong-endpoint"},
	{errPoison, http.StatusBadRequest, "The precertificate poison extension must be there once, critical, with the value NULL.", "poison"},
	{errOrder, http.StatusBadRequest, "The chain is out of order: each certificate must be followed by the one that issued it.", "order"},
	{errIssuer, http.StatusBadRequest, "The chain has an issuer that is not a certificate authority.", "issuer"},
	{errWindow, http.StatusBadRequest, "The certificate's NotAfter is outside this log's window.", "window"},
	{errEKU, http.StatusBadRequest, "The certificate's extended key usage lacks serverAuth, which this log asks for.", "eku"},
	{errUnknownRoot, http.StatusBadRequest, "The chain does not lead to a root that this log accepts.", "unknown-root"},
	{errSignature, http.StatusBadRequest, "The chain has a signature that does not verify.", "signature"},
	{errTooMuchWork, http.StatusBadRequest, "The chain needs too many signatures to be checked.", "work"},
	{errPrecertSigning, http.StatusBadRequest, "The Precertificate Signing Certificate cannot be used.", "precert-signing"},
	{errTBS, http.StatusBadRequest, "The precertificate cannot be turned into the certificate to be logged.", "precert-tbs"},

	{errClientGone, statusClientGone, "The request was cancelled.", "client-gone"},
	{errTimeout, http.StatusServiceUnavailable, "The log did not take the entry in time; please submit it again.", "timeout"},
	{errOverloaded, http.StatusServiceUnavailable, "The log is overloaded; please submit again.", "overloaded"},
	{sequencer.ErrFull, http.StatusServiceUnavailable, "The log is at its capacity; please submit again.", "full"},
	{sequencer.ErrEvicted, http.StatusServiceUnavailable, "The entry gave way to a fresher one; please submit it again.", "evicted"},
	{sequencer.ErrBusy, http.StatusServiceUnavailable, "The log is overloaded; please submit again.", "busy"},
	{sequencer.ErrStorage, http.StatusServiceUnavailable, "The log is short of storage and takes no entries for now; please submit again later.", "storage"},
	{sequencer.ErrClock, http.StatusServiceUnavailable, "The log does not trust its clock and takes no entries for now; please submit again later.", "clock"},
	{sequencer.ErrRound, http.StatusServiceUnavailable, "The entry was not logged; please submit it again.", "round-failed"},
	{sequencer.ErrClosed, http.StatusServiceUnavailable, "The log is shutting down; please submit again.", "closed"},
	{sequencer.ErrLimited, http.StatusTooManyRequests, "Too many resubmissions of logged entries from this network; please slow down.", "limited"},
	{sequencer.ErrSunset, http.StatusGone, "This log is read-only and takes no more entries.", "sunset"},
	{sequencer.ErrHalted, http.StatusInternalServerError, "The log has stopped taking entries.", "halted"},

	{errInternal, http.StatusInternalServerError, "The log failed to process the request.", outcomeInternal},
}

// Labels of a request that was answered as it wished, and of one that failed
// for a reason without a row of its own.
const (
	outcomeOK       = "ok"
	outcomeInternal = "internal"
)

// refusal is a reason with a sentence of its own for the client, which it must
// be fit for.
type refusal struct {
	reason   error
	sentence string
}

func refuse(reason error, sentence string) error { return &refusal{reason, sentence} }

func (r *refusal) Error() string { return r.sentence }
func (r *refusal) Unwrap() error { return r.reason }

// answerTo returns the row of the table for err, with its own sentence if it
// is a refusal. ctx is the request's: only its end makes a context error
// anything but a fault of ours.
func answerTo(ctx context.Context, err error) answer {
	if cause := ctx.Err(); cause != nil && errors.Is(err, cause) {
		if err = errClientGone; errors.Is(cause, context.DeadlineExceeded) {
			err = errTimeout
		}
	}
	a := answers[len(answers)-1]
	for _, row := range answers {
		if errors.Is(err, row.reason) {
			a = row
			break
		}
	}
	if r := (*refusal)(nil); errors.As(err, &r) {
		a.sentence = r.sentence
	}
	return a
}
