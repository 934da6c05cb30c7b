package launch

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/timing"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// What passes between a launcher and its child process: one job.RoleSpec and then job.RoleRenewals down, job.RoleReports up. Each is a frame: the length as a little-endian
// uint32, then the message.

// MaxSpec bounds an encoded job.RoleSpec in bytes, and MaxReport an encoded job.RoleReport.
const (
	MaxSpec   = 256 << 20
	MaxReport = 64 << 10
)

// stdin names the spec's place in errors.
const stdin = "role spec on standard input"

// frame returns a message as a frame.
func frame(m proto.Message) ([]byte, error) {
	b, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, 4), m)
	if err == nil {
		binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	}
	return b, err
}

// readFrame reads one frame of at most limit bytes. It returns io.EOF when r ends before the frame begins.
func readFrame(r io.Reader, where string, limit int64, m proto.Message) error {
	var head [4]byte
	if n, err := io.ReadFull(r, head[:]); n == 0 && errors.Is(err, io.EOF) {
		return io.EOF
	} else if err != nil {
		return fault.E(fault.Corrupt, fault.At(where), fault.Gotf("%d bytes", n), fault.Want("a length of 4 bytes"), fault.Cause(err))
	}
	size := int64(binary.LittleEndian.Uint32(head[:]))
	if size > limit {
		return tooLarge(where, size, limit)
	}
	// The buffer grows with what arrives, not with what is announced.
	var b bytes.Buffer
	if n, err := io.CopyN(&b, r, size); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fault.E(fault.Corrupt, fault.At(where), fault.Gotf("%d bytes", n), fault.Wantf("%d bytes", size), fault.Cause(err))
	}
	return fault.Wrap(fault.Corrupt, where, proto.Unmarshal(b.Bytes(), m))
}

func tooLarge(where string, n, limit int64) error {
	return fault.E(fault.TooLarge, fault.At(where), fault.Gotf("%d bytes", n), fault.Wantf("at most %d", limit))
}

// encodeSpec returns what a child reads.
func encodeSpec(spec *job.RoleSpec) ([]byte, error) {
	if n := proto.Size(spec); n > MaxSpec {
		return nil, tooLarge(nameOf(spec), int64(n), MaxSpec)
	}
	b, err := frame(spec)
	return b, fault.Wrap(fault.InvalidArgument, nameOf(spec), err)
}

// ChildSpec is a child's side of Processes: it reads the spec from r, which is its standard input, and then renewals. Of several that were not taken the last counts.
// lost is closed when r ends, which it does when the parent is gone: the child must then end. Nobody else may read r.
func ChildSpec(r io.Reader) (spec *job.RoleSpec, renewed <-chan *job.RoleRenewal, lost <-chan struct{}, err error) {
	nameProcess(os.Args[0])
	spec = &job.RoleSpec{}
	if err := readFrame(r, stdin, MaxSpec, spec); errors.Is(err, io.EOF) {
		return nil, nil, nil, fault.E(fault.Corrupt, fault.At(stdin), fault.Got("nothing"), fault.Want("a role spec"), fault.Cause(io.ErrUnexpectedEOF),
			fault.Hint("roles are started by edl itself, not by hand"))
	} else if err != nil {
		return nil, nil, nil, err
	}
	ended, next := make(chan struct{}), newRenewals()
	go func() {
		defer close(ended)
		next.read(r)
		_, _ = io.CopyN(io.Discard, r, math.MaxInt64) // any error means as much as the end
	}()
	return spec, next, ended, nil
}

// reportEnv tells a child where its end of the pipe for reports is: the number of a file descriptor or, on Windows, of a handle.
const reportEnv = "EDL_REPORT_PIPE"

// A Reporter is a child's side of its reports. It sends from a goroutine of its own, so that no caller waits for a launcher that hangs: of several
// reports that could not be sent yet the last counts. A nil Reporter reports nothing.
type Reporter struct {
	to    io.WriteCloser
	wake  chan struct{} // holds one token while next or pieces are to be sent
	sent  chan struct{} // holds one token when a piece was sent
	ended chan struct{}

	mu     sync.Mutex
	next   *job.RoleReport
	pieces [][]byte // of the trace, to be sent before next
	closed bool
}

// OpenReporter returns the Reporter of this process; nil when it was started by nobody who reads reports. It is called once.
func OpenReporter() *Reporter {
	number, err := strconv.ParseUint(os.Getenv(reportEnv), 10, 64)
	if err != nil || os.Unsetenv(reportEnv) != nil {
		return nil
	}
	pipe := inherited(uintptr(number))
	if pipe == nil {
		return nil
	}
	if info, err := pipe.Stat(); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		return nil // an environment that came from elsewhere
	}
	return newReporter(pipe)
}

func newReporter(to io.WriteCloser) *Reporter {
	r := &Reporter{to: to, wake: make(chan struct{}, 1), sent: make(chan struct{}, 1), ended: make(chan struct{}), next: &job.RoleReport{}}
	go r.run()
	return r
}

// run sends until Close, or until the launcher is gone.
func (r *Reporter) run() {
	defer close(r.ended)
	for range r.wake {
		r.mu.Lock()
		pieces := r.pieces
		r.pieces = nil
		b, err := frame(bounded(r.next))
		r.mu.Unlock()
		for _, piece := range pieces {
			if r.send(&job.RoleReport{Trace: piece}) != nil {
				return
			}
			select {
			case r.sent <- struct{}{}:
			default:
			}
		}
		if err == nil {
			_, err = r.to.Write(b)
		}
		if err != nil {
			return
		}
	}
}

func (r *Reporter) send(m *job.RoleReport) error {
	b, err := frame(m)
	if err == nil {
		_, err = r.to.Write(b)
	}
	return err
}

// Waits reports what the role waits for now. The list belongs to the Reporter from then on.
func (r *Reporter) Waits(list []*job.Wait) {
	r.put(func(next *job.RoleReport) { next.Waits = list })
}

// Rounds reports where the time of the last rounds went. The message belongs to the Reporter from then on.
func (r *Reporter) Rounds(m *job.RoundTimes) {
	r.put(func(next *job.RoleReport) { next.Rounds = m })
}

// Trace reports what the role has recorded of the rounds that its job profiles. It is called at most once, when the role ends.
func (r *Reporter) Trace(m *job.Trace) {
	pieces := piecesOf(m)
	r.put(func(*job.RoleReport) { r.pieces = pieces })
}

// piecesOf encodes a trace in pieces that fit into reports. A trace that is too large, which no role makes, has none.
func piecesOf(m *job.Trace) [][]byte {
	b, err := proto.Marshal(m)
	if err != nil || len(b) > timing.MaxTrace {
		return nil
	}
	return slices.Collect(slices.Chunk(b, MaxReport/2))
}

func (r *Reporter) put(change func(next *job.RoleReport)) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.next = &job.RoleReport{Waits: r.next.Waits, Failure: r.next.Failure, Rounds: r.next.Rounds}
	change(r.next)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Close reports how the role has ended, which becomes the error of Handle.Wait with its kind and fields: an exit code alone says too little to decide
// whether to try again. It returns when the launcher has been told, or does not listen: it takes nothing for Deadlines.LastReport. Further calls do nothing.
func (r *Reporter) Close(err error) {
	if r == nil {
		return
	}
	if err != nil {
		r.put(func(next *job.RoleReport) { next.Waits, next.Failure = nil, wire.FailureOf(err) })
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	r.closed = true
	close(r.wake)
	r.mu.Unlock()
	defer r.to.Close()                           // ends run
	limit := jobspec.DeadlinesOf(nil).LastReport // it is the same for every job
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case <-r.ended:
			return
		case <-r.sent: // a trace has many pieces, and a launcher on a busy machine takes them one by one
			timer.Reset(limit)
		case <-timer.C:
			return
		}
	}
}

// bounded returns a report of at most MaxReport bytes: first the texts of a long failure are left out, then the last waits.
func bounded(m *job.RoleReport) *job.RoleReport {
	if proto.Size(m) <= MaxReport {
		return m
	}
	m = &job.RoleReport{Waits: m.Waits, Failure: m.Failure, Rounds: m.Rounds}
	if f := m.Failure; f != nil {
		text := wire.FaultOf(f).Error()
		m.Failure = &job.Failure{Kind: f.Kind, Message: strings.ToValidUTF8(text[:min(len(text), MaxReport/2)], "")}
	}
	for len(m.Waits) > 0 && proto.Size(m) > MaxReport {
		m.Waits = m.Waits[:len(m.Waits)-1]
	}
	return m
}

// reports is a launcher's side: what a role told last. Handles embed it.
type reports struct {
	mu      sync.Mutex
	last    *job.RoleReport
	trace   []byte        // all pieces so far
	whole   bool          // trace has all pieces: another report follows the last one
	ahead   time.Duration // of the clock of the role's machine before that of this one
	changed chan struct{} // nil until somebody asks for it
}

// take keeps a report, unless it is one that no role makes.
func (r *reports) take(m *job.RoleReport) error {
	if err := check(m); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.enter(m)
}

// check refuses a report that no role makes.
func check(m *job.RoleReport) error {
	if err := waits.Check(m.GetWaits()); err != nil {
		return err
	}
	if !timing.Check(m.GetRounds()) {
		return fault.E(fault.Corrupt, fault.At("reports of a role"), fault.Got("times of rounds that no role has"))
	}
	return nil
}

// enter keeps a report. r.mu is held.
func (r *reports) enter(m *job.RoleReport) error {
	if len(m.GetTrace()) > 0 {
		if len(r.trace)+len(m.Trace) > timing.MaxTrace {
			return tooLarge("the trace of a role", int64(len(r.trace)+len(m.Trace)), timing.MaxTrace)
		}
		r.trace = append(r.trace, m.Trace...)
		return nil
	}
	r.last, r.whole = m, len(r.trace) > 0
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
	return nil
}

// read takes reports until there are no more, and says why when that is not their end.
func (r *reports) read(from io.Reader) error {
	for {
		m := &job.RoleReport{}
		err := readFrame(from, "reports of a role", MaxReport, m)
		if err == nil {
			err = r.take(m)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Waits implements Handle.
func (r *reports) Waits() (list []*job.Wait, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.last.GetWaits(), r.changed
}

// Rounds implements Handle.
func (r *reports) Rounds() *job.RoundTimes {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.GetRounds()
}

// Trace implements Handle.
func (r *reports) Trace() (encoded []byte, ahead time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.whole {
		return nil, r.ahead
	}
	return r.trace, r.ahead
}

// failure is why the role says that it failed; nil when it says nothing.
func (r *reports) failure() *job.Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.GetFailure()
}

// reportsKey is the key of the *reports in the context of a role that is a goroutine.
type reportsKey struct{}

// ReportOf returns what takes the reports of a role that runs as a goroutine of this process; ctx is the context that the role was given. In any other
// context it takes them and does nothing.
func ReportOf(ctx context.Context) Direct {
	r, _ := ctx.Value(reportsKey{}).(*reports)
	return Direct{r}
}

// Direct is the Reporter of a role that runs as a goroutine: it reports without a pipe. A refused report tells nobody anything.
type Direct struct{ to *reports }

// Waits is Reporter.Waits.
func (d Direct) Waits(list []*job.Wait) {
	d.put(func(next *job.RoleReport) { next.Waits = list })
}

// Rounds is Reporter.Rounds.
func (d Direct) Rounds(m *job.RoundTimes) {
	d.put(func(next *job.RoleReport) { next.Rounds = m })
}

// Trace is Reporter.Trace.
func (d Direct) Trace(m *job.Trace) {
	if d.to == nil {
		return
	}
	for _, piece := range piecesOf(m) {
		_ = d.to.take(&job.RoleReport{Trace: piece})
	}
	d.put(func(*job.RoleReport) {}) // what follows the last piece
}

func (d Direct) put(change func(next *job.RoleReport)) {
	if d.to == nil {
		return
	}
	d.to.mu.Lock()
	defer d.to.mu.Unlock()
	next := &job.RoleReport{Waits: d.to.last.GetWaits(), Rounds: d.to.last.GetRounds()}
	change(next)
	if next = bounded(next); check(next) == nil {
		_ = d.to.enter(next)
	}
}
