package executor

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/chrometrace"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Describe writes the plan as a table: each step with what it writes, its arithmetic, the bytes that it touches, where its results lie, and on how
// many workers it may run; and for an executor with a profile, once it has run, the time of a step and its rate.
func (p *Prepared) Describe(w io.Writer) error {
	if err := p.local.lock.acquire(context.Background()); err != nil {
		return err
	}
	defer p.local.lock.release()
	return describe(w, p.plan)
}

func describe(w io.Writer, p *plan.Plan) error {
	steps := p.Steps()
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "STEP\tOPS\tWRITES\tFLOPS\tBYTES\tMEMORY\tWORKERS\tTIME\tGFLOP/S")
	var total plan.StepInfo
	for i, s := range steps {
		took, rate := "-", "-"
		if s.Runs > 0 {
			each := s.Took.Nanoseconds() / int64(s.Runs)
			took = fmt.Sprintf("%.1fus", float64(each)/1000)
			rate = fmt.Sprintf("%.1f", float64(s.Cost.Flops)/float64(max(each, 1)))
			total.Took += s.Took / time.Duration(s.Runs)
		}
		total.Cost.Flops += s.Cost.Flops
		total.Cost.Bytes += s.Cost.Bytes
		fmt.Fprintf(table, "%d\t%s\t%s\t%d\t%d\t%s\t%d\t%s\t%s\n", i, s.Name, abridged(s.Shapes), s.Cost.Flops, s.Cost.Bytes, abridged(s.Memory),
			s.Parts, took, rate)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	m := p.Memory()
	_, err := fmt.Fprintf(w, "%d steps, %d flops, %d bytes touched, %d bytes of arena for %d bytes of temporaries, %d bytes of own\n",
		len(steps), total.Cost.Flops, total.Cost.Bytes, m.Arena, m.Sum, m.Own)
	if err == nil && total.Took > 0 {
		_, err = fmt.Fprintf(w, "%v for all steps on one worker after the other\n", total.Took)
	}
	return err
}

// abridged joins a list. It leaves out the middle of a long one.
func abridged(list []string) string {
	const most = 4
	if len(list) > most {
		list = []string{list[0], fmt.Sprintf("%d more", len(list)-2), list[len(list)-1]}
	}
	return strings.Join(list, " ")
}

// DescribePlan writes the plan that an executor with these options makes of p for a batch of rows, after running it for a number of
// steps, with zeros for every variable that is fed or read. It needs no data and leaves nothing behind.
func DescribePlan(ctx context.Context, w io.Writer, p *program.Program, rows int64, steps int, options ...Option) error {
	l := New(append(options, WithScope(NewScope()), WithProfile(new(Profile)))...)
	defer l.Close()
	feed, err := zeros(p, rows)
	if err != nil {
		return err
	}
	prepared, err := l.Prepare(ctx, p, feed)
	if err != nil {
		return err
	}
	for range steps {
		if _, err := prepared.RunStep(ctx, ops.Step{Rows: rows}, feed); err != nil {
			return err
		}
	}
	return prepared.Describe(w)
}

// zeros makes a batch of zeros: of the variables that the read op fills, of those that feed ops name, and of those that ops read and no op
// writes. Where rows form sequences, each row is one.
func zeros(p *program.Program, rows int64) (Feed, error) {
	b := p.Global()
	written := map[string]bool{}
	feed := Feed{}
	add := func(name string) error {
		v, ok := b.Find(name)
		if !ok || v.Kind != program.LoDTensor || v.Persistable || written[name] || feed[name] != nil {
			return nil
		}
		dims := make([]int64, len(v.Dims))
		for i, d := range v.Dims {
			dims[i] = d
			if d == program.Unknown {
				dims[i] = rows
			}
		}
		t, err := tensor.New(v.DType, dims...)
		if err != nil {
			return fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
		}
		for range v.LoDLevel {
			t.SetLoD(append(t.LoD(), singles(rows)))
		}
		feed[name] = t
		return nil
	}
	for _, op := range b.Ops {
		def, _ := ops.Lookup(op.Type)
		border := def != nil && (def.Class == ops.Read || def.Class == ops.Feed)
		for _, name := range op.InputNames() {
			if err := add(name); !border && err != nil {
				return nil, err
			}
		}
		for _, name := range op.OutputNames() {
			if border {
				if err := add(name); err != nil {
					return nil, err
				}
			}
			written[name] = true
		}
	}
	return feed, nil
}

// singles returns the offsets of n sequences of one row.
func singles(n int64) []int64 {
	offsets := make([]int64, n+1)
	for i := range offsets {
		offsets[i] = int64(i)
	}
	return offsets
}

// A Profile records when each step of the plans of an executor ran, and on which worker. Make one with new, hand it to WithProfile, and write
// it out at any time. It costs some tens of nanoseconds for each step, and memory for up to 262,144 of them.
type Profile struct {
	// Before, if it is not 0, ends the recording: rounds of this number and later ones are left out. Set it before the executor runs anything.
	Before uint64
	trace  plan.Trace
}

// WithProfile makes an executor record into p. Plans then know how long their steps take; see Prepared.Describe.
func WithProfile(p *Profile) Option {
	return func(l *Local) {
		l.profile = p
		if p != nil {
			p.trace.Before = p.Before
		}
	}
}

// A KernelRun is one run of a step of a plan, or of a part of it, on one worker.
type KernelRun struct {
	Name   string
	Line   string // of the program, "" when unknown
	Worker int    // from 0
	Round  uint64
	Start  time.Time
	Took   time.Duration
	Flops  int64 // of the whole step
	Bytes  int64
}

// Runs returns what was recorded so far, in the order in which the runs ended, and how many runs did not fit.
func (p *Profile) Runs() (runs []KernelRun, lost int) {
	events, lost := p.trace.Events()
	begin := p.trace.Begin()
	for _, e := range events {
		runs = append(runs, KernelRun{Name: e.Name, Line: e.Line, Worker: e.Lane, Round: e.Round, Start: begin.Add(e.Start), Took: e.Took,
			Flops: e.Cost.Flops, Bytes: e.Cost.Bytes})
	}
	return runs, lost
}

// WriteTrace writes what was recorded in the trace event format of Chrome (JSON), which about:tracing and ui.perfetto.dev show: a lane for each
// worker, and with each step its line of the program, its round and its arithmetic.
func (p *Profile) WriteTrace(w io.Writer) error {
	runs, lost := p.Runs()
	begin := p.trace.Begin()
	file := &chrometrace.File{}
	lanes := 0
	for _, r := range runs {
		lanes = max(lanes, r.Worker+1)
		file.Add(chrometrace.Span{Name: r.Name, Process: 1, Lane: r.Worker, Start: r.Start.Sub(begin), Took: r.Took,
			Args: map[string]any{"line": r.Line, "round": r.Round, "flops": r.Flops, "bytes": r.Bytes}})
	}
	for lane := range lanes {
		file.NameLane(1, lane, fmt.Sprintf("worker %d", lane))
	}
	file.Note("lost_events", lost)
	return file.Write(w)
}
