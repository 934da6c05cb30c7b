package coordinator

import (
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/tensor"
)

// batch is a fed batch to train, or the names of variables to read when nothing is fed. It is never changed.
type batch struct {
	feed    []*job.Value
	fetch   []string
	batched map[string]*tensor.Tensor // values of feed whose first dim the program leaves open
	rows    int64                     // of batched, or sequences of the outermost level; the largest number of them if nobody divides the batch
	divided bool
}

// newBatch decodes and checks what a user gives. divided says that trainers, or devices of one, divide the batch. Otherwise feeds may have different numbers of rows.
func newBatch(p *program.Program, run *rpc.StepRun, divided bool) (*batch, error) {
	b := &batch{feed: run.Feed, fetch: run.Fetch, batched: map[string]*tensor.Tensor{}, divided: divided}
	feed := executor.Feed{}
	for _, value := range run.Feed {
		if feed[value.Name] != nil {
			return nil, fault.E(fault.InvalidArgument, fault.Var(value.Name), fault.Got("two feeds of one variable"), fault.Want("one"))
		}
		var err error
		if feed[value.Name], err = decode(value); err != nil {
			return nil, err
		}
	}
	if b.reads() {
		return b, nil
	}
	if err := checkStep(p, run, feed); err != nil {
		return nil, err
	}
	if divided {
		if _, err := ops.WeightOf(p, run.Fetch); err != nil {
			return nil, err
		}
	}
	for _, value := range run.Feed {
		v, _ := p.Global().Var(value.Name)
		if len(v.Dims) == 0 || v.Dims[0] != program.Unknown {
			continue
		}
		whole := feed[value.Name]
		rows := tensor.Records(whole)
		if divided && len(b.batched) > 0 && rows != b.rows {
			return nil, fault.E(fault.ShapeMismatch, fault.Var(value.Name), fault.Gotf("%v of %d rows or sequences", whole, rows),
				fault.Wantf("%d, as the other feeds have", b.rows))
		}
		b.batched[value.Name], b.rows = whole, max(b.rows, rows)
	}
	return b, nil
}

// reads reports whether nothing is trained.
func (b *batch) reads() bool { return len(b.feed) == 0 }

// share cuts out the part of one of several trainers, by its position among them: rows [rows*position/of, rows*(position+1)/of) of every variable whose
// first dim the program leaves open, and all of the others. Of rows that form sequences it cuts the sequences of the outermost level.
func (b *batch) share(position, of int) (*rpc.FeedShare, error) {
	s := &rpc.FeedShare{Fetch: b.fetch}
	if b.reads() {
		return s, nil
	}
	from, to := b.rows*int64(position)/int64(of), b.rows*int64(position+1)/int64(of)
	s.RowOffset, s.Rows, s.GlobalRows = from, to-from, b.rows
	for _, value := range b.feed {
		if whole := b.batched[value.Name]; whole != nil && b.divided {
			part, err := tensor.PartOf(whole, from, to)
			if err != nil {
				return nil, err
			}
			value = &job.Value{Name: value.Name, Stream: tensor.AppendStream(nil, part)}
		}
		s.Feed = append(s.Feed, value)
	}
	if len(b.batched) == 0 { // every trainer would do the same, so one does it
		if s.GlobalRows = 1; position == 0 {
			s.Rows = 1
		}
	}
	return s, nil
}

func decode(v *job.Value) (*tensor.Tensor, error) {
	t, rest, err := tensor.DecodeStream(v.Stream, tensor.Limits{})
	if err == nil && len(rest) > 0 {
		err = fault.E(fault.Corrupt, fault.Gotf("%d bytes behind the tensor", len(rest)))
	}
	if err != nil {
		return nil, fault.E(fault.KindOf(err), fault.Var(v.Name), fault.Cause(err))
	}
	return t, nil
}

// checkStep refuses a step that trainers could not run, in the words of the local executor: a trainer that fails in a step ends the job, and a user's
// slip should not. p is the program of the trainers; feed holds the decoded values of run.
func checkStep(p *program.Program, run *rpc.StepRun, feed executor.Feed) error {
	if err := executor.CheckSequences(p, feed); err != nil {
		return err
	}
	for _, name := range run.Fetch {
		if _, ok := p.Global().Var(name); !ok {
			return fault.E(fault.NotFound, fault.Var(name), fault.Got("a name that the trainers' program does not declare"),
				fault.Want("a variable to fetch"), fault.Hint("name what only servers compute in the fetch list of the job"))
		}
	}
	return executor.CheckStep(p, feed)
}
