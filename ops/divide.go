package ops

import (
	"slices"
	"strings"

	"github.com/edl-go/edl/program"
)

// A share says what a variable is on a trainer that has a part of the rows of a batch, in a program with loops and branches. Later ones include earlier ones: a
// variable that may be either is the later.
type share int

const (
	common share = iota // the same on every trainer
	steps               // depends on the part, but only through the number of its steps: the length of its longest sequence
	apart               // has rows of the part, and each depends on no other row
	mixed               // depends on several rows
)

// A division follows shares through the ops of a program, also through blocks that ops run. A loop may run as often as the longest sequence of the part has
// steps, as layers.DynamicRNN does: then each step changes only rows of sequences that have the step.
type division struct {
	of      map[string]share
	some    map[string]bool        // variables that are apart, and have rows of some records only: a half of the batch
	axis    map[string]int         // of a variable that is apart: the axis of the records, if it is not axis 0
	runs    map[string]int         // of a variable that is apart: how many runs of all records follow one another along axis 0, with as many rows each, if more than one
	step    map[string]bool        // arrays whose items are the steps of the longest sequence
	count   map[string]bool        // rows of the sequences that have a step. They may be counted, as DynamicRNN.memory of Fluid does for the first state, and nothing else
	at      *program.Op            // the first op that mixes rows
	from    map[string]*program.Op // of a variable that is mixed: the op that has mixed the rows that it depends on
	chosen  *choices               // how data chooses rows
	totals  map[string]bool        // variables of the global block that trainers share, so that all have those of the whole batch
	typeOf  func(name string) (Meta, bool)
	records *records // says of ops of the global block which keep rows apart that they seem to mix, and which do not depend on the batch
	inner   bool     // the op at hand is in a block of another: what is known of a name of the global block says nothing of it
	stepped int      // how many loops whose runs count steps are around
}

// divide follows the shares through the forward pass. fed reports whether a variable that no op writes comes with the batch. totals are the variables that trainers share.
func divide(block *program.Block, forward []*program.Op, fed func(name string) bool, typeOf func(name string) (Meta, bool), records *records, totals map[string]bool) *division {
	d := &division{records: records, totals: totals, from: map[string]*program.Op{}, of: map[string]share{}, axis: map[string]int{}, runs: map[string]int{}, some: map[string]bool{}, step: map[string]bool{}, count: map[string]bool{}, typeOf: typeOf,
		chosen: &choices{rows: map[string]string{}, index: map[string]maskIndex{}, place: map[string]string{}, dims: map[string]string{}}}
	for _, op := range forward {
		for _, name := range op.InputNames() {
			if _, known := d.of[name]; !known && fed(name) {
				if v, ok := block.Find(name); ok && v.Kind != program.LoDTensorArray && v.Kind != program.StepScopes {
					d.of[name] = apart
				}
			}
		}
		d.run(block, op)
	}
	return d
}

// needsDivision reports whether ops run blocks, handle arrays, or read records that do not lie along axis 0.
func needsDivision(forward []*program.Op) bool {
	return slices.ContainsFunc(forward, func(op *program.Op) bool {
		def, ok := Lookup(op.Type)
		return ok && (def.Class == Control || def.RecordsAlong != nil)
	})
}

// largest returns the share of what is computed from all of some variables.
func (d *division) largest(names []string) share {
	all := common
	for _, name := range names {
		all = max(all, d.of[name])
	}
	return all
}

// write records what an op writes. A variable that had a value may keep it where keeps is true.
func (d *division) write(op *program.Op, names []string, s share, keeps bool) {
	if s == mixed && d.at == nil {
		d.at = op
	}
	cause := op
	for _, name := range op.InputNames() {
		if from := d.from[name]; d.of[name] == mixed && from != nil {
			cause = from
			break
		}
	}
	some := op.Type == "split_lod_tensor" || op.Type != "merge_lod_tensor" && slices.ContainsFunc(op.InputNames(), func(name string) bool { return d.some[name] })
	for _, name := range names {
		if keeps {
			s = max(s, d.of[name])
		}
		if d.of[name] = s; s == mixed {
			d.from[name] = cause
		} else {
			delete(d.from, name)
		}
		delete(d.axis, name)
		delete(d.runs, name)
		delete(d.count, name)
		d.chosen.forget(name)
		if d.some[name] = s == apart && (some || keeps && d.some[name]); !d.some[name] {
			delete(d.some, name)
		}
	}
}

func (d *division) run(block *program.Block, op *program.Op) {
	d.inner = block.Index != 0
	def, ok := Lookup(op.Type)
	if !ok {
		d.write(op, op.OutputNames(), mixed, false)
		return
	}
	switch {
	case def.Class == Read || def.Class == Feed:
		d.write(op, op.OutputNames(), apart, false)
	case block.Index == 0 && len(op.OutputNames()) == 1 && d.totals[op.OutputNames()[0]]:
		d.write(op, op.OutputNames(), common, false)
	case d.chosen.choose(d, block, op, def):
	case slices.ContainsFunc(op.InputNames(), func(name string) bool { return d.count[name] }) && !strings.HasSuffix(op.Type, "_batch_size_like"):
		d.write(op, op.OutputNames(), mixed, false)
	case filled(d, op):
	case def.FromDims, block.Index == 0 && d.records.equal(op), sameExtents(d, op):
		d.write(op, op.OutputNames(), common, false)
	case len(op.SubBlocks()) > 0:
		d.runBlock(block, op)
	case def.Class == Control:
		d.runControl(op, def)
	case d.hasRuns(op):
		d.runAlong(block, op, def)
	case d.turns(op, def):
		d.turn(op, def)
	default:
		d.write(op, op.OutputNames(), d.computed(block, op, def), false)
	}
}

// computed returns the share of what an op computes.
func (d *division) computed(block *program.Block, op *program.Op, def *Def) share {
	elements := op.InputNames()
	if block.Index == 0 {
		elements = d.records.elements(op)
	}
	all := d.largest(elements)
	counts := slices.ContainsFunc(elements, func(name string) bool { return d.of[name] == steps })
	divided := func(slot string) bool {
		return slices.ContainsFunc(op.Inputs[slot], func(name string) bool { return d.of[name] == apart })
	}
	switch {
	case all == common && len(elements) < len(op.InputNames()): // as many rows as the batch says
		if d.records.keptApart(op, divided) {
			return apart
		}
		return mixed
	case all != apart || def.MixesRows == nil && !counts && def.State == nil:
		return all
	case counts, def.State != nil && block.Index != 0:
		return mixed
	case def.MixesRows == nil:
		return apart
	}
	shapes, err := Infer(op, func(name string) (Meta, bool) {
		v, ok := block.Find(name)
		if _, own := block.Var(name); own && block.Index != 0 { // also a variable of the name of one outside, which may have other dims
			return MetaOf(v), true
		}
		if m, ok := d.typeOf(name); ok {
			return m, true
		}
		if !ok {
			return Meta{}, false
		}
		return MetaOf(v), true
	})
	if err != nil || def.MixesRows(shapes, divided) && !(block.Index == 0 && d.records.keptApart(op, divided)) {
		return mixed
	}
	return apart
}

// byRecord lists ops of class Control whose results for a record depend on no other record.
var byRecord = []string{"read_from_array", "lod_rank_table", "array_to_lod_tensor", "shrink_rnn_memory", "reorder_lod_tensor_by_rank", "split_lod_tensor",
	"merge_lod_tensor", "merge_lod_tensor_infer", "select_input", "select_output", "mine_hard_examples"}

// runControl follows an op of arrays or of rank tables.
func (d *division) runControl(op *program.Op, def *Def) {
	values := d.largest(slices.DeleteFunc(op.InputNames(), func(name string) bool { return slices.Contains(op.Inputs["I"], name) }))
	index := d.largest(op.Inputs["I"])
	out := op.OutputNames()
	turned := slices.ContainsFunc(op.InputNames(), func(name string) bool { return d.axis[name] != 0 || d.runs[name] > 1 })
	switch {
	case values == mixed || values == apart && turned || index > steps || op.Type == "select_input" && d.largest(op.Inputs["Mask"]) > common:
		d.write(op, out, mixed, false)
	case op.Type == "max_sequence_len" && values == apart:
		d.write(op, out, steps, false)
	case op.Type == "lod_array_length":
		d.write(op, out, min(values, steps), false)
	case op.Type == "write_to_array":
		d.write(op, out, values, true)
		for _, name := range out {
			d.step[name] = d.step[name] || d.stepped > 0
		}
	case op.Type == "tensor_array_to_tensor" && values == apart && !d.step[op.In("X")]:
		d.joinItems(op)
	case op.Type == "lod_tensor_to_array":
		d.write(op, out, values, false)
		for _, name := range out {
			d.step[name] = true
		}
	case op.Type == "read_from_array" && values == apart && d.step[op.In("X")] && d.stepped == 0:
		d.write(op, out, apart, false) // rows of some sequences
		for _, name := range out {
			d.count[name] = true
		}
	case values == apart && !slices.Contains(byRecord, op.Type):
		d.write(op, out, mixed, false)
	default:
		if values == steps || index == steps && values == common && op.Type == "read_from_array" {
			values = steps
		}
		d.write(op, out, values, false)
	}
}

// joinItems follows an op that joins the items of an array, which have a row for each record.
func (d *division) joinItems(op *program.Op) {
	axis, _ := op.Int("axis")
	stack, _ := op.Bool("use_stack")
	if axis < 0 || axis == 0 && !stack {
		d.write(op, op.OutputNames(), mixed, false)
		return
	}
	d.write(op, op.Outputs["OutIndex"], common, false)
	at := 0
	if axis == 0 {
		at = 1
	}
	d.set(op, op.Out("Out"), apart, at)
}

// runBlock follows the block of a loop or of a branch.
func (d *division) runBlock(block *program.Block, op *program.Op) {
	if steps, ok := StepsOf(op); ok {
		d.runSteps(block, op, steps)
		return
	}
	condition := d.largest(slices.Concat(op.Inputs["Condition"], op.Inputs["Cond"]))
	if scalar, _ := op.Bool("is_scalar_condition"); !scalar && op.Type == "conditional_block" && condition == apart &&
		!slices.ContainsFunc(op.Inputs["Cond"], func(name string) bool { return d.some[name] }) {
		condition = common // whether there are rows: a trainer without any computes nothing
	}
	index, ok := op.SubBlock("sub_block")
	sub, err := block.Program().Block(index)
	loop := op.Type == "while"
	_, writes := block.Touches(op)
	outside := func(s share, keeps bool) {
		for name := range writes {
			d.write(op, []string{name}, s, keeps)
		}
	}
	if !ok || err != nil || condition > steps || !loop && condition == steps || !loop && op.Type != "conditional_block" {
		outside(mixed, false)
		return
	}
	if condition == steps {
		d.stepped++
		defer func() { d.stepped-- }()
	}
	before := map[string]share{}
	for name := range writes {
		before[name] = d.of[name]
	}
	for range int(mixed) + 2 { // a share can only grow: that of a variable outside, as often as there are shares, along a chain of them
		changed := false
		for _, inner := range sub.Ops {
			was := d.largest(inner.OutputNames())
			d.run(sub, inner)
			changed = changed || d.largest(inner.OutputNames()) != was
		}
		for name := range writes {
			if d.of[name] < before[name] {
				d.of[name] = before[name]
			}
		}
		if !loop || !changed {
			break
		}
	}
	again := condition
	if loop {
		again = d.largest(op.Inputs["Condition"])
	}
	if again > steps || again == steps && condition < steps {
		outside(mixed, false)
		return
	}
	for name := range writes {
		v, found := block.Find(name)
		switch {
		case condition != steps || !found:
		case v.Kind == program.LoDTensor && d.of[name] == apart: // rows would change in steps that their sequences do not have
			d.write(op, []string{name}, mixed, false)
		case v.Kind == program.LoDTensor:
			d.of[name] = max(d.of[name], steps)
		}
	}
}

// runSteps follows the block of recurrent. A step has rows of the records if these lie along axis 1 of the inputs.
func (d *division) runSteps(block *program.Block, op *program.Op, steps Steps) {
	index, _ := op.SubBlock("sub_block")
	sub, err := block.Program().Block(index)
	if err != nil || steps.grad {
		d.write(op, op.OutputNames(), mixed, false)
		return
	}
	outside := map[string]share{}
	axes := map[string]int{}
	for _, name := range steps.Inputs { // the block has rows of them under the same names
		outside[name], axes[name] = d.of[name], d.axis[name]
	}
	for _, name := range steps.Inputs {
		s, at := outside[name], axes[name]
		if s == apart && at == 0 {
			s = mixed // the records are the steps
		}
		d.set(op, name, s, at-1)
	}
	for i, name := range steps.Before {
		s := d.of[steps.Initial[i]]
		if d.runs[steps.Initial[i]] > 1 {
			s = mixed
		}
		d.set(op, name, s, d.axis[steps.Initial[i]])
	}
	for changed := true; changed; { // shares only grow
		changed = false
		for _, inner := range sub.Ops {
			d.run(sub, inner)
		}
		for i, name := range steps.Before {
			s := max(d.of[name], d.of[steps.After[i]])
			if s == apart && d.of[name] == apart && d.axis[name] != d.axis[steps.After[i]] {
				s = mixed
			}
			if s != d.of[name] {
				d.set(op, name, s, d.axis[steps.After[i]])
				changed = true
			}
		}
	}
	for _, name := range steps.Outputs {
		d.set(op, name, d.of[name], d.axis[name]+1)
	}
	for name, s := range outside {
		d.set(op, name, s, axes[name])
	}
}

// set records the share of a variable, and the axis of the records.
func (d *division) set(op *program.Op, name string, s share, axis int) {
	d.write(op, []string{name}, s, false)
	if s == apart && axis > 0 {
		d.axis[name] = axis
	}
}
