package fault

import "errors"

// Kind is the sort of an error. Kinds travel by number: add new ones at the end, and change none.
type Kind int

const (
	// OK is no error.
	OK               Kind = iota
	Internal              // a bug in EDL, or an error without a kind
	InvalidProgram        // a program breaks the rules of the IR or of its stage
	InvalidArgument       // a call, flag, attribute or configuration is wrong
	TypeMismatch          // dtype or kind is not the declared one
	ShapeMismatch         // dims are not the declared or needed ones
	NotFound              // a name, file, dataset or member does not exist
	Unsupported           // legal, but this build cannot do it
	Corrupt               // bytes that do not decode or fail their checksum
	TooLarge              // something is above a limit; nothing was allocated for it
	NotFinite             // NaN or Inf in place of a number
	Unavailable           // a peer does not answer now; another try may help
	DeadlineExceeded      // a wait timed out
	Canceled              // the caller gave up
	Duplicate             // a message that was applied already
	Stale                 // a message of an earlier round or generation
	Foreign               // a message of another job or program
	LostMember            // a trainer, pserver or coordinator is gone
	VerifyFailed          // distributed and local results differ
	Fenced                // this process lost its lease or lock; another process may go on
	Drained               // the process ended on request, with its work finished
	Superseded            // the generation of the message has ended in order; join the next one
	Denied                // the caller does not show credentials that allow the call
	LostState             // parameters, or other state of a job, are gone with a member: another start of the member does not bring them back
)

type kindRow struct {
	name      string
	grpc      uint32 // google.golang.org/grpc/codes
	exit      int    // of the edl command
	permanent bool   // another try or another start cannot help
}

// kinds gives each kind its name, gRPC code, exit code and permanence.
var kinds = [...]kindRow{
	OK:               {"ok", 0, 0, false},
	Internal:         {"internal error", 13, 1, false},
	InvalidProgram:   {"invalid program", 3, 2, true},
	InvalidArgument:  {"invalid argument", 3, 2, true},
	TypeMismatch:     {"type mismatch", 3, 2, true},
	ShapeMismatch:    {"shape mismatch", 3, 2, true},
	NotFound:         {"not found", 5, 2, true},
	Unsupported:      {"unsupported", 12, 2, true},
	Corrupt:          {"corrupt data", 15, 2, true},
	TooLarge:         {"limit exceeded", 8, 2, true},
	NotFinite:        {"not a finite number", 11, 1, true},
	Unavailable:      {"unavailable", 14, 1, false},
	DeadlineExceeded: {"deadline exceeded", 4, 1, false},
	Canceled:         {"interrupted", 1, 130, false},
	Duplicate:        {"duplicate message", 6, 1, false},
	Stale:            {"stale message", 9, 1, false},
	Foreign:          {"message of another job", 7, 1, true},
	LostMember:       {"member lost", 10, 1, false},
	VerifyFailed:     {"verification failed", 9, 3, true},
	Fenced:           {"fenced", 10, 138, false},
	Drained:          {"drained", 1, 143, false},
	Superseded:       {"superseded", 10, 1, false},
	Denied:           {"access denied", 16, 2, true},
	LostState:        {"state lost", 10, 1, false},
}

// row returns the row of k in the table. An unknown number counts as Internal.
func (k Kind) row() kindRow {
	if k < 0 || int(k) >= len(kinds) {
		k = Internal
	}
	return kinds[k]
}

// String names the kind in plain words.
func (k Kind) String() string { return k.row().name }

// Error makes a Kind an error, so that it can be the target of errors.Is.
func (k Kind) Error() string { return k.String() }

// GRPCCode returns the number of the kind in google.golang.org/grpc/codes.
func (k Kind) GRPCCode() uint32 { return k.row().grpc }

// ExitCode returns the exit code of the edl command for the kind.
func (k Kind) ExitCode() int { return k.row().exit }

// Permanent reports whether the same call, or another start of the same role, would fail again.
func (k Kind) Permanent() bool { return k.row().permanent }

// IsLost reports whether an error says that a member of a job is gone, or state with it.
func IsLost(err error) bool { return errors.Is(err, LostMember) || errors.Is(err, LostState) }
