package executor

import (
	"log/slog"
	"time"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// An Option changes how New makes a Local.
type Option func(*Local)

// WithScope makes the executor work on variables that others see too. The default is a new scope.
func WithScope(s *Scope) Option { return func(l *Local) { l.scope = s } }

// WithWorkers lets n goroutines, of which the caller's is one, run the ops of a step, each as soon as its inputs are ready, and share the large ones.
// A program that is too small to gain from it runs on the caller's alone. Results are the same bits for every n. The default is 1.
func WithWorkers(n int) Option { return func(l *Local) { l.workers = n } }

// defaultGrain is some times what it takes to hand a part over to a worker that looks for one.
const defaultGrain = 2 * time.Microsecond

// WithGrain says how long a part of a step must take, by estimate, to be worth another worker; the default is 2 µs. A program that takes less than 50
// times as long runs on the caller's goroutine alone. With 0 whatever can be divided is, which is slow and leaves no order unused: for tests.
func WithGrain(d time.Duration) Option { return func(l *Local) { l.grain = d } }

// WithComm gives send, recv and barrier ops the wire to the pservers.
func WithComm(c ops.Comm) Option { return func(l *Local) { l.env.Comm = c } }

// WithServer gives listen_and_serv what it serves with.
func WithServer(s ops.Server) Option { return func(l *Local) { l.env.Server = s } }

// WithStorage gives save and load ops their files; see NewStorage.
func WithStorage(s ops.Storage) Option { return func(l *Local) { l.env.Storage = s } }

// WithStage says by which rules programs are verified before they run; the default is program.StageLocal.
func WithStage(s program.Stage) Option { return func(l *Local) { l.stage = s } }

// WithoutFiniteCheck lets a training step go on when its loss or a fetched variable is NaN or infinite. By default the step
// fails before it changes parameters.
func WithoutFiniteCheck() Option { return func(l *Local) { l.checkFinite = false } }

// WithLogger reports at debug level what was compiled, and at info level when a startup program runs. The default is silence.
func WithLogger(log *slog.Logger) Option { return func(l *Local) { l.log = log } }
