package fault

// Kind says what sort of thing is wrong. The list is closed and its numbers are on the wire: append only.
type Kind int

const (
	// OK is no error.
	OK               Kind = iota
	Internal              // a bug in EDL
	InvalidProgram        // a program breaks the rules of the IR or of its stage
	InvalidArgument       // a call, flag, attribute or configuration is wrong
	TypeMismatch          // dtype or kind differs from what is declared
	ShapeMismatch         // dims differ from what is declared or needed
	NotFound              // a name, file, dataset or member does not exist
	Unsupported           // legal, but not something that this build can do
	Corrupt               // bytes that do not decode or fail their checksum
	TooLarge              // a limit was met before allocation
	NotFinite             // NaN or Inf where a number was expected
	Unavailable           // a peer does not answer now; may be tried again
	DeadlineExceeded      // a wait ended without what was waited for
	Canceled              // the caller gave up
	Duplicate             // a message that was applied before
	Stale                 // a message of an older round or generation
	Foreign               // a message of another job or program
	LostMember            // a trainer, pserver or coordinator is gone
	VerifyFailed          // distributed and local results differ
	Fenced                // this process lost its lease or lock: retry elsewhere
	Drained               // ended on request after finishing its work
	Superseded            // the generation of a message has ended, in order: join the next one
)

// kinds is the one table from kind to name, gRPC code, exit code and permanence.
var kinds = [...]struct {
	name      string
	grpc      uint32 // google.golang.org/grpc/codes
	exit      int
	permanent bool // trying again, or starting again, cannot help
}{
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
}

// String names the kind in plain words.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kinds) {
		return kinds[Internal].name
	}
	return kinds[k].name
}

// Error lets a Kind be the target of errors.Is.
func (k Kind) Error() string { return k.String() }

// GRPCCode returns the google.golang.org/grpc/codes number of the kind.
func (k Kind) GRPCCode() uint32 {
	if k < 0 || int(k) >= len(kinds) {
		return kinds[Internal].grpc
	}
	return kinds[k].grpc
}

// ExitCode returns the exit code of the edl command for the kind.
func (k Kind) ExitCode() int {
	if k < 0 || int(k) >= len(kinds) {
		return kinds[Internal].exit
	}
	return kinds[k].exit
}

// Permanent reports whether what failed would fail again: the same call, or another start of the same role, cannot do better.
func (k Kind) Permanent() bool {
	if k < 0 || int(k) >= len(kinds) {
		return kinds[Internal].permanent
	}
	return kinds[k].permanent
}
