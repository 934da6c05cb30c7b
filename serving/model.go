// Package serving answers requests with a trained model, from several goroutines, in bounded memory.
//
//	m, err := serving.Open("served")
//	...
//	outputs, err := m.Predict(ctx, map[string]*tensor.Tensor{"x": x})
//
// Its files in reading order:
//
//   - model.go: Model, its options, and Predict
//   - schema.go: what a model takes and gives, and the check of a request
//   - queue.go: requests that wait for a worker, and how they form batches
//   - version.go: one state of the files of a model, and its workers; read.go: how it is read
//   - worker.go: one executor, and how it runs a batch; ladder.go: its plans for fixed numbers of rows
//   - watch.go: how a model notices that its files have changed
//   - source.go: parameters that come from elsewhere, such as checkpoints of a job that trains on; tables.go: large ones in files
//
// # Memory
//
// An executor keeps plans for the dims that it has met, so batches of ever new sizes cost memory, and time for each new plan. A worker of a Model has plans for a
// few numbers of rows, the largest of which is MaxBatch, made when the model is opened. A request with more rows runs in pieces, and one with fewer is
// filled up with copies of its last row. So what a Model holds does not depend on the requests.
//
// This takes a model in which each row of a result depends on its own row of the inputs (Schema.Rowwise). Requests to any other model run as they are, one at a
// time, and have at most MaxBatch rows.
package serving

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// Bounds of what options may ask for.
const (
	defaultMaxBatch = 64
	largestBatch    = 1 << 16 // rows
	largestWorkers  = 1 << 10
	defaultQueue    = 1024
)

type settings struct {
	params   string
	source   Source
	tables   tablesOf
	fetch    []string
	workers  int
	maxBatch int
	maxWait  time.Duration
	maxQueue int
	interval time.Duration // between looks at the files; 0: none
	log      *slog.Logger
	observe  func(Batch)
	reloaded func(error)
}

// An Option changes how Open opens a model.
type Option func(*settings)

// WithParams says where the parameters are, if not where the program says: a directory or a file, as executor.LoadParams takes them.
func WithParams(path string) Option { return func(s *settings) { s.params = path } }

// WithFetch says which variables Predict returns. The default is what the fetch ops of the program name.
func WithFetch(names ...string) Option { return func(s *settings) { s.fetch = names } }

// WithWorkers lets n batches run at the same time, each on one core. The default is GOMAXPROCS.
func WithWorkers(n int) Option { return func(s *settings) { s.workers = n } }

// WithMaxBatch bounds the rows, or sequences, of one run. The default is 64. Requests with more run in pieces.
func WithMaxBatch(rows int) Option { return func(s *settings) { s.maxBatch = rows } }

// WithMaxWait lets a request wait for others, to share a run with them, until there are MaxBatch rows or it has waited for d. The default is 0: a request
// shares its run only with those that wait for a worker anyway.
func WithMaxWait(d time.Duration) Option { return func(s *settings) { s.maxWait = d } }

// WithMaxQueue bounds the requests that wait. One more is refused (ErrBusy). The default is 1024.
func WithMaxQueue(n int) Option { return func(s *settings) { s.maxQueue = n } }

// WithReload looks at the files of the model each d, and reads them again when they have changed. Requests do not notice it: those that run end with the
// parameters that they began with. Files that do not make a model are logged, and leave the model as it is. The default is never.
func WithReload(d time.Duration) Option { return func(s *settings) { s.interval = d } }

// WithLogger says what is reported of reloads. The default is silence.
func WithLogger(log *slog.Logger) Option { return func(s *settings) { s.log = log } }

// WithObserver calls each after each run, for metrics. It must not block.
func WithObserver(each func(Batch)) Option { return func(s *settings) { s.observe = each } }

// WithReloadObserver calls each after each attempt to read changed files, with its error. It must not block.
func WithReloadObserver(each func(error)) Option { return func(s *settings) { s.reloaded = each } }

// A Batch is one run of the model.
type Batch struct {
	Requests int           // that shared it
	Rows     int64         // of them
	Ran      int64         // rows that were computed, with those that fill up
	Took     time.Duration // without waiting
}

// A Model is a trained model that answers requests. Its methods may be called from several goroutines.
type Model struct {
	path     string
	settings settings
	current  atomic.Pointer[version]
	reading  sync.Mutex // held while files are read
	seen     files      // that were read last; reading guards it
	tables   *tables
	stop     context.CancelFunc
	watching sync.WaitGroup
	versions sync.WaitGroup // that have not ended
	closed   atomic.Bool
}

// Open reads a model: a directory that "edl export", Fluid or Paddle has written, or a program file. It makes ready for requests, so no Predict is slower
// than the others. Close ends what it starts.
func Open(path string, options ...Option) (*Model, error) {
	s := settings{workers: runtime.GOMAXPROCS(0), maxBatch: defaultMaxBatch, maxQueue: defaultQueue, tables: tablesOf{least: leastTable}, log: slog.New(slog.DiscardHandler)}
	for _, o := range options {
		o(&s)
	}
	for _, bound := range []struct {
		name       string
		value, max int
	}{{"workers", s.workers, largestWorkers}, {"rows of a batch", s.maxBatch, largestBatch}, {"requests that wait", s.maxQueue, 1 << 24}} {
		if bound.value < 1 || bound.value > bound.max {
			return nil, fault.E(fault.InvalidArgument, fault.At(path), fault.Gotf("%d %s", bound.value, bound.name), fault.Wantf("1 to %d", bound.max))
		}
	}
	if s.maxWait < 0 || s.interval < 0 {
		return nil, fault.E(fault.InvalidArgument, fault.At(path), fault.Gotf("a wait of %v and a look each %v", s.maxWait, s.interval), fault.Want("times that are not negative"))
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &Model{path: path, settings: s, stop: cancel, tables: &tables{tablesOf: s.tables}}
	if err := m.read(ctx); err != nil {
		cancel()
		return nil, err
	}
	if s.interval > 0 {
		m.watching.Go(func() { m.watch(ctx) })
	}
	return m, nil
}

// Schema says what the model takes and gives now.
func (m *Model) Schema() Schema { return m.current.Load().schema }

// Path is where the model was opened.
func (m *Model) Path() string { return m.path }

// Loaded says when the files were read that the model has now, and how many times they have been read.
func (m *Model) Loaded() (at time.Time, times int) {
	v := m.current.Load()
	return v.since, v.number
}

// Following is the name of the state of the source (WithSource) that requests are answered with now; empty: the parameters are those of files.
func (m *Model) Following() string {
	if state := m.current.Load().params.state; state != nil {
		return state.Name()
	}
	return ""
}

// Waiting is how many requests wait for a worker.
func (m *Model) Waiting() int { return m.current.Load().queue.waiting() }

// Predict computes the outputs of the model for inputs by name. All inputs have the same number of rows, or of sequences. The inputs must not change while
// Predict runs; the outputs belong to the caller. Errors name the input, what it is and what it should be. If ctx ends, Predict returns at once, unless a run
// of the model has begun with the inputs: it waits for the end of that run.
func (m *Model) Predict(ctx context.Context, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	v := m.acquire()
	if v == nil {
		return nil, closed(m.path)
	}
	defer v.release()
	records, err := v.schema.check(inputs, m.settings.maxBatch)
	if err != nil {
		return nil, err
	}
	r := &request{version: v, inputs: inputs, records: records}
	for from := int64(0); from < records; {
		p := pieceOf(r, from, &m.settings)
		if err := v.queue.run(ctx, p, &m.settings); err != nil {
			return nil, err
		}
		from = p.to
	}
	outputs := make(map[string]*tensor.Tensor, len(r.parts))
	for i, f := range v.schema.Outputs {
		if outputs[f.Name], err = r.output(i); err != nil {
			return nil, err
		}
	}
	return outputs, nil
}

// Close waits for the requests that run, and frees the model. Requests after it fail with fault.Canceled.
func (m *Model) Close() error {
	if !m.closed.CompareAndSwap(false, true) {
		return nil
	}
	m.stop()
	m.watching.Wait()
	m.reading.Lock()
	defer m.reading.Unlock()
	v := m.current.Load()
	v.release() // that of the model
	m.versions.Wait()
	m.tables.close()
	return v.err
}

// acquire returns the present version, which the caller releases; nil when the model is closed.
func (m *Model) acquire() *version {
	for {
		v := m.current.Load()
		if v.retain() {
			return v
		}
		if m.closed.Load() {
			return nil
		}
	}
}

func closed(path string) error {
	return fault.E(fault.Canceled, fault.At(path), fault.Got("a model that is closed"), fault.Want("an open one"))
}
