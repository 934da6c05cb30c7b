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

// kinds is the one table from kind to name, gRPC code and exit code.
var kinds = [...]struct {
	name string
	grpc uint32 // google.golang.org/grpc/codes
	exit int
}{
	OK:               {"ok", 0, 0},
	Internal:         {"internal error", 13, 1},
	InvalidProgram:   {"invalid program", 3, 2},
	InvalidArgument:  {"invalid argument", 3, 2},
	TypeMismatch:     {"type mismatch", 3, 2},
	ShapeMismatch:    {"shape mismatch", 3, 2},
	NotFound:         {"not found", 5, 2},
	Unsupported:      {"unsupported", 12, 2},
	Corrupt:          {"corrupt data", 15, 2},
	TooLarge:         {"limit exceeded", 8, 2},
	NotFinite:        {"not a finite number", 11, 1},
	Unavailable:      {"unavailable", 14, 1},
	DeadlineExceeded: {"deadline exceeded", 4, 1},
	Canceled:         {"interrupted", 1, 130},
	Duplicate:        {"duplicate message", 6, 1},
	Stale:            {"stale message", 9, 1},
	Foreign:          {"message of another job", 7, 1},
	LostMember:       {"member lost", 10, 1},
	VerifyFailed:     {"verification failed", 9, 3},
	Fenced:           {"fenced", 10, 138},
	Drained:          {"drained", 1, 143},
	Superseded:       {"superseded", 10, 1},
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
