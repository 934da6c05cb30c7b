package ops

import "github.com/edl-go/edl/program"

// A model may put several variables that have rows of all records after one another along axis 0, such as the heads of attention or the images of a pair, compute with all rows at once, and
// divide them again. A trainer has its part of each such run, so a row there still depends on one record alone, as long as each op keeps rows apart.

// hasRuns reports whether an op reads runs of records, or makes them.
func (d *division) hasRuns(op *program.Op) bool {
	for _, name := range op.InputNames() {
		if d.runs[name] > 1 {
			return true
		}
	}
	return op.Type == "concat" && d.joined(op) > 1
}

// joined returns how many runs of records concat makes of its inputs, 0 if it makes none: it joins them along axis 0, and each run of each has as many rows of a record.
func (d *division) joined(op *program.Op) int {
	names := op.Inputs["X"]
	if axis, _ := op.Int("axis"); len(names) == 0 || op.In("AxisTensor") != "" || d.inner || axis != 0 && axis != -int64(d.rank(names[0])) {
		return 0
	}
	all, rows := 0, int64(0)
	for i, name := range names {
		runs := max(d.runs[name], 1)
		of := d.records.rows(name, 1) / int64(runs)
		if i == 0 {
			rows = of
		}
		if d.of[name] != apart || d.axis[name] != 0 || d.some[name] || of < 1 || of != rows || d.records.rows(name, 2) != 2*of*int64(runs) {
			return 0
		}
		all += runs
	}
	return all
}

// runAlong follows an op that reads runs of records, or makes them.
func (d *division) runAlong(block *program.Block, op *program.Op, def *Def) {
	share, runs := apart, d.joined(op)
	switch {
	case op.Type == "concat" && runs > 1:
	case op.Type == "split":
		runs = d.parted(op)
	default:
		runs = d.kept(op, def)
		if runs > 0 {
			share = d.computed(block, op, def)
		}
	}
	if runs < 1 || d.largest(op.InputNames()) != apart {
		share = mixed
	}
	d.write(op, op.OutputNames(), share, false)
	for _, name := range op.OutputNames() {
		if share == apart && runs > 1 {
			d.runs[name] = runs
		}
	}
}

// parted returns how many runs each output of split has, 0 if it does not divide at the ends of runs.
func (d *division) parted(op *program.Op) int {
	x, parts := op.In("X"), len(op.Outputs["Out"])
	axis, _ := op.Int("axis")
	sections, _ := op.Ints("sections")
	if op.In("AxisTensor") != "" || len(op.Inputs["SectionsTensorList"]) > 0 || parts == 0 {
		return 0
	}
	if rank := int64(d.rank(x)); axis != 0 && axis != -rank {
		if axis < -rank || axis >= rank {
			return 0
		}
		return d.runs[x]
	}
	if len(sections) > 0 || d.runs[x]%parts != 0 {
		return 0
	}
	return d.runs[x] / parts
}

// kept returns how many runs of records the outputs of an op have that keeps rows apart, 0 if inputs differ, or if rows of two runs may come together.
func (d *division) kept(op *program.Op, def *Def) int {
	if d.inner {
		return 0
	}
	runs := 0
	for _, name := range op.InputNames() {
		switch {
		case d.of[name] == common:
		case d.axis[name] != 0 || d.some[name] || runs > 0 && runs != max(d.runs[name], 1):
			return 0
		default:
			runs = max(d.runs[name], 1)
		}
	}
	if op.Type == "temporal_shift" || keepsOrder(op) && d.records.rows(op.Out("Out"), 1)%int64(max(runs, 1)) != 0 || def.RecordsAlong != nil || def.Class != Compute && def.Class != Random {
		return 0
	}
	return runs
}

// rank returns how many axes a variable has, 0 if that is not known.
func (d *division) rank(name string) int {
	if d.inner {
		return 0
	}
	m, _ := d.typeOf(name)
	return len(m.Dims)
}
