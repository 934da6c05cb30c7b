package ops

import (
	"errors"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// A Tape is what the runs of a block leave to the block of its gradient: the value of a variable of kind program.StepScopes. Each run adds a record, which
// has copies of some variables. The gradient takes the records back, the last one first. If the op stands in a block that a loop runs, the tape has the
// records of all runs of the op, and the gradients of the runs follow in reverse order too. So one stack serves loops within loops.
//
// It keeps the memory of records for later runs, so a loop that takes the same steps again allocates nothing.
type Tape struct {
	Forward any // what the executor knows of the block that records

	watched   []*tensor.Tensor   // that a record copies
	records   [][]*tensor.Tensor // the first n are in use
	n         int
	runs      []int64 // of each run of the op that was not taken back: how many records it has added
	playbacks []*Playback
	name      string         // of the variable
	budget    *tensor.Budget // of what the records take, in use or not; nil for none
}

// Watch makes records copy t from now on. It is called before the first record.
func (t *Tape) Watch(v *tensor.Tensor) {
	if !slices.Contains(t.watched, v) {
		t.watched = append(t.watched, v)
	}
}

// Begin begins a run of the op.
func (t *Tape) Begin() { t.runs = append(t.runs, 0) }

// Record adds a record of the present values, to the run of the op that began last.
func (t *Tape) Record() error {
	if t.n == len(t.records) {
		if err := t.budget.Take(t.name, int64(len(t.watched))*itemBytes); err != nil {
			return ofGradient(err)
		}
		t.records = append(t.records, make([]*tensor.Tensor, len(t.watched)))
	}
	for i, v := range t.watched {
		to := t.records[t.n][i]
		if to == nil {
			made, err := tensor.New(v.DType(), 0)
			if err != nil {
				return err
			}
			t.budget.Hold(made, t.name)
			t.records[t.n][i], to = made, made
		}
		if err := tensor.Assign(to, v); err != nil {
			return ofGradient(err)
		}
	}
	t.n++
	t.runs[len(t.runs)-1]++
	return nil
}

// ofGradient says what an error of the budget is about.
func ofGradient(err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.TooLarge {
		return err
	}
	c := *f
	c.Hint = "each run of the block leaves values to its gradient: make batches or loops shorter, or allow more memory if the machine has it"
	return &c
}

// A Playback takes the records of a tape back for one gradient of the block. The last one that was made frees them.
type Playback struct {
	tape  *Tape
	begun bool
	runs  int // of the op that it has not taken
	n     int // records that it has not restored
}

// Playback makes a playback. It is called before the first record.
func (t *Tape) Playback() *Playback {
	p := &Playback{tape: t}
	t.playbacks = append(t.playbacks, p)
	return p
}

// frees reports whether p takes the records for the last time.
func (p *Playback) frees() bool { return p == p.tape.playbacks[len(p.tape.playbacks)-1] }

// rewind begins with what the tape has.
func (p *Playback) rewind() {
	if !p.begun || p.frees() {
		p.begun, p.runs, p.n = true, len(p.tape.runs), p.tape.n
	}
}

// Take ends the gradient of the run that began last: it returns how many records that run has added, which Restore then takes back.
func (p *Playback) Take() (int64, error) {
	p.rewind()
	if p.runs == 0 {
		return 0, fault.E(fault.InvalidProgram, fault.Got("the gradient of a block that has not run"), fault.Want("as many gradients as runs"))
	}
	p.runs--
	n := p.tape.runs[p.runs]
	if p.frees() {
		p.tape.runs = p.tape.runs[:p.runs]
	}
	return n, nil
}

// Restore gives the watched variables the values of the last record, and takes it back.
func (p *Playback) Restore() error {
	p.rewind()
	t := p.tape
	if p.n == 0 {
		return fault.E(fault.InvalidProgram, fault.Got("the gradient of a run that left nothing"), fault.Want("one gradient for each run"))
	}
	p.n--
	for i, v := range t.watched {
		from := t.records[p.n][i]
		if err := tensor.Assign(v, from); err != nil {
			return err
		}
	}
	if p.frees() {
		t.n = p.n
	}
	return nil
}

// clear takes back all records.
func (t *Tape) clear() {
	t.n, t.runs = 0, t.runs[:0]
	for _, p := range t.playbacks {
		p.begun = false
	}
}
