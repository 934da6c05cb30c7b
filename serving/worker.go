package serving

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// A worker runs batches, one at a time. It has an executor of its own over the parameters that all workers of a version share.
type worker struct {
	version *version
	exe     *executor.Local
	rungs   []*rung // plans for fixed numbers of rows, the smallest first; none where dims of the inputs are open
}

// serve runs the pieces of a batch, and tells each that it is done. If several fail together, each runs again alone: a wrong value in one request is no
// error of another.
func (w *worker) serve(ctx context.Context, batch []*piece, s *settings) {
	if len(batch) > 1 {
		ctx = context.WithoutCancel(ctx) // others wait, too
	}
	for _, p := range batch {
		p.err = errUnended // unless a kernel panics, another value follows
		defer close(p.done)
	}
	err := w.runBatch(ctx, batch, s)
	for _, p := range batch {
		if p.err = err; err != nil && len(batch) > 1 {
			p.err = w.runBatch(ctx, []*piece{p}, s)
		}
	}
}

var errUnended = fault.New(fault.Internal, "a run of the model did not end")

func (w *worker) runBatch(ctx context.Context, batch []*piece, s *settings) error {
	var records int64
	for _, p := range batch {
		records += p.records()
	}
	began := time.Now()
	run := w.runAny
	if len(w.rungs) > 0 {
		run = w.runFixed
	}
	fetched, ran, err := run(ctx, batch, records)
	took := time.Since(began)
	if err != nil {
		return err
	}
	for i := range w.version.schema.Outputs {
		if err := w.deliver(i, fetched[i], batch, records, ran); err != nil {
			return err
		}
	}
	if s.observe != nil {
		s.observe(Batch{Requests: len(batch), Rows: records, Ran: ran, Took: took})
	}
	return nil
}

// deliver copies its rows of an output to each piece. The output has ran records, of which the first ones are those of the batch.
func (w *worker) deliver(i int, out *tensor.Tensor, batch []*piece, records, ran int64) error {
	if !w.version.schema.Rowwise {
		batch[0].add(i, out.Clone())
		return nil
	}
	have := tensor.Records(out)
	each := have / ran
	if each*ran != have || each < 1 {
		return fault.E(fault.ShapeMismatch, fault.Var(w.version.schema.Outputs[i].Name), fault.Gotf("%s from %d records", out, ran), fault.Want("as many rows for each record"))
	}
	at := int64(0)
	for _, p := range batch {
		part, err := tensor.PartOf(out, at*each, (at+p.records())*each)
		if err != nil {
			return err
		}
		p.add(i, part.Clone())
		at += p.records()
	}
	return nil
}

// add adds a part of an output to the request.
func (p *piece) add(output int, part *tensor.Tensor) {
	if p.request.parts == nil {
		p.request.parts = make([][]*tensor.Tensor, len(p.request.version.schema.Outputs))
	}
	p.request.parts[output] = append(p.request.parts[output], part)
}

// runAny runs a batch with the dims that it has. The executor keeps few plans, and gives them other dims.
func (w *worker) runAny(ctx context.Context, batch []*piece, records int64) (fetched []*tensor.Tensor, ran int64, err error) {
	feed := executor.Feed{}
	for i := range w.version.schema.Inputs {
		f := &w.version.schema.Inputs[i]
		parts := make([]*tensor.Tensor, len(batch))
		for j, p := range batch {
			t := p.request.inputs[f.Name]
			if f.batched() && p.records() < p.request.records {
				if t, err = tensor.PartOf(t, p.from, p.to); err != nil {
					return nil, 0, err
				}
				t = t.Clone() // a plan holds what it was fed last, and must not hold all of a long request
			}
			parts[j] = t
		}
		if feed[f.Name], err = joined(f, parts); err != nil {
			return nil, 0, err
		}
	}
	fetched, err = w.exe.Run(ctx, w.version.program, feed)
	return fetched, records, err
}

// A rung is a plan for a number of rows, with memory for inputs that are filled up or joined.
type rung struct {
	rows     int64
	prepared *executor.Prepared
	staging  []*tensor.Tensor // of each input
	feed     executor.Feed    // of the staging
}

// rungsOf lists the numbers of rows of the plans of a worker, the smallest first: each is at most half as large again as the one before, or one more.
func rungsOf(most int) (all []int64) {
	for n := 1; n < most; n *= 2 {
		all = append(all, int64(n))
		if half := n + n/2; n >= 8 && half < most {
			all = append(all, int64(half))
		}
	}
	return append(all, int64(most))
}

// prepare makes the plans of a worker for fixed numbers of rows. The largest comes first, so that the others find its memory large enough.
func (w *worker) prepare(ctx context.Context, most int) error {
	schema := &w.version.schema
	for _, rows := range slices.Backward(rungsOf(most)) {
		r := &rung{rows: rows, feed: executor.Feed{}}
		for i := range schema.Inputs {
			f := &schema.Inputs[i]
			t, err := tensor.New(f.DType, append([]int64{rows}, f.Dims[1:]...)...)
			if err != nil {
				return fault.E(fault.KindOf(err), fault.Var(f.Name), fault.Cause(err))
			}
			r.staging, r.feed[f.Name] = append(r.staging, t), t
		}
		var err error
		if r.prepared, err = w.exe.Prepare(ctx, w.version.program, r.feed); err != nil {
			return err
		}
		w.rungs = append(w.rungs, r)
	}
	slices.Reverse(w.rungs)
	return nil
}

// runFixed runs a batch with the plan for the next number of rows. A batch of just so many rows of one request is not copied.
func (w *worker) runFixed(ctx context.Context, batch []*piece, records int64) (fetched []*tensor.Tensor, ran int64, err error) {
	at, _ := slices.BinarySearchFunc(w.rungs, records, func(r *rung, n int64) int { return int(r.rows - n) })
	r := w.rungs[at]
	if len(batch) > 1 || records < r.rows {
		if err := r.fill(w.version.schema.Inputs, batch); err != nil {
			return nil, 0, err
		}
		fetched, err = r.prepared.Run(ctx, r.feed)
		return fetched, r.rows, err
	}
	feed, err := batch[0].view(w.version.schema.Inputs)
	if err != nil {
		return nil, 0, err
	}
	fetched, err = r.prepared.Run(ctx, feed)
	return fetched, r.rows, errors.Join(err, r.prepared.Feed(context.WithoutCancel(ctx), r.feed)) // the plan must not hold what belongs to the caller
}

// view returns the rows of a piece, without copies.
func (p *piece) view(inputs []Field) (executor.Feed, error) {
	if p.records() == p.request.records {
		return p.request.inputs, nil
	}
	feed := executor.Feed{}
	for i := range inputs {
		t, err := p.request.inputs[inputs[i].Name].Rows(p.from, p.to)
		if err != nil {
			return nil, err
		}
		feed[inputs[i].Name] = t
	}
	return feed, nil
}

// fill copies the rows of pieces to the memory of a plan, and the last one again into the rows that are left.
func (r *rung) fill(inputs []Field, batch []*piece) error {
	for i := range inputs {
		to, at := r.staging[i], int64(0)
		put := func(t *tensor.Tensor, from, until int64) error {
			part, err := t.Rows(from, until)
			if err != nil {
				return err
			}
			room, err := to.Rows(at, at+until-from)
			if err != nil {
				return err
			}
			at += until - from
			return room.CopyFrom(part)
		}
		for _, p := range batch {
			if err := put(p.request.inputs[inputs[i].Name], p.from, p.to); err != nil {
				return err
			}
		}
		for last := at - 1; at < r.rows; {
			if err := put(to, last, last+1); err != nil {
				return err
			}
		}
	}
	return nil
}
