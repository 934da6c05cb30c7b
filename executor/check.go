package executor

import (
	"fmt"
	"maps"
	"slices"

	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The checks of this file are those that every executor makes of what a caller asks for, before anything runs. So a mistake has the same error on one
// machine and on a cluster, and costs no step and no job.

// CheckProgram refuses a nil program.
func CheckProgram(p *program.Program) error {
	if p == nil {
		return fault.E(fault.InvalidArgument, fault.At("executor"), fault.Got("a nil program"), fault.Want("a program"),
			fault.Hint("build one with package layers, or read one with program.Decode"))
	}
	return nil
}

// CheckStep refuses what Run of a program that trains cannot do, whatever the state: feeds that are unknown, missing, computed by the program or of
// another type or shape than declared, unknown fetches, and shapes of feeds that do not fit together.
func CheckStep(p *program.Program, feed Feed, fetch ...string) error {
	shapes, err := shapesOf(p, feed)
	if err != nil {
		return err
	}
	persistable := func(name string) bool {
		v, ok := p.Global().Find(name)
		return ok && v.Persistable
	}
	if err := plan.CheckRequest(p.Global(), shapes, fetch, persistable); err != nil {
		return err
	}
	return adviseRows(plan.CheckShapes(p.Global(), shapes), p, shapes)
}

// adviseRows adds to dims that do not fit together that feeds of records have different numbers of rows, if they do: an op far behind them may be the first that the numbers meet in.
func adviseRows(err error, p *program.Program, shapes map[string]ops.Meta) error {
	f, ok := err.(*fault.Fault)
	if !ok || f.Kind != fault.ShapeMismatch || f.Hint != "" {
		return err
	}
	first := ""
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		v, found := p.Global().Var(name)
		if m := shapes[name]; !found || v.LoDLevel > 0 || len(v.Dims) == 0 || v.Dims[0] != program.Unknown || len(m.Dims) == 0 {
			continue
		}
		if first == "" {
			first = name
		} else if x, y := shapes[first].Dims[0], shapes[name].Dims[0]; x != y {
			c := *f
			c.Hint = fmt.Sprintf("%s has %d rows and %s has %d: give one row of each for a record", fault.Quote(first), x, fault.Quote(name), y)
			return &c
		}
	}
	return err
}

// levelsHint says what to do about a feed with other LoD levels than declared.
func levelsHint(fed, declared int) string {
	switch {
	case declared == 0:
		return "feed the rows without offsets, or declare the variable with layers.LoD"
	case fed > declared:
		return "leave out the offsets of the outer levels, or declare the variable with as many levels (layers.LoD)"
	case fed == 0:
		return "feed the offsets of the sequences, too: --lod, arrays NAME.lod0 of a .npz file, or tensor.Tensor.SetLoD"
	}
	return "feed the offsets of all levels, the outermost first"
}

// CheckSequences refuses feeds that do not have the LoD levels that p declares, whose offsets are wrong, or whose sequences have other lengths than those that p combines them
// with row by row. Who divides a batch among trainers relies on all of it.
func CheckSequences(p *program.Program, feed Feed) error {
	for _, name := range slices.Sorted(maps.Keys(feed)) {
		v, ok := p.Global().Find(name)
		t := feed[name]
		if !ok || t == nil {
			continue
		}
		if len(t.LoD()) != v.LoDLevel {
			return fault.E(fault.ShapeMismatch, fault.Var(name), fault.Gotf("%d LoD levels", len(t.LoD())), fault.Wantf("%d, as declared", v.LoDLevel),
				fault.Hint(levelsHint(len(t.LoD()), v.LoDLevel)))
		}
		if err := tensor.CheckLoD(t); err != nil {
			return fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
		}
	}
	return checkPaired(p, feed)
}

// rowOffsets returns what the innermost level divides at which the outermost sequences begin, and how much there is of it.
func rowOffsets(lod [][]int64) []int64 {
	offsets := slices.Clone(lod[0])
	for _, level := range lod[1:] {
		for i := range offsets {
			offsets[i] = level[offsets[i]]
		}
	}
	return offsets
}

// checkPaired refuses sequences of other lengths in two variables whose rows p combines one by one.
func checkPaired(p *program.Program, feed Feed) error {
	first, differ := [][]int64(nil), false
	for _, t := range feed {
		if t == nil || len(t.LoD()) == 0 {
			continue
		}
		if first == nil {
			first = t.LoD()
		}
		differ = differ || !slices.EqualFunc(first, t.LoD(), slices.Equal[[]int64])
	}
	if !differ {
		return nil
	}
	for _, pair := range ops.PairedSequences(p) {
		a, b := feed[pair.A], feed[pair.B]
		if a == nil || b == nil || len(a.LoD()) < pair.LevelsA || len(b.LoD()) < pair.LevelsB {
			continue
		}
		x, y := rowOffsets(a.LoD()[:pair.LevelsA]), rowOffsets(b.LoD()[:pair.LevelsB])
		for i := range min(len(x), len(y)) {
			if x[i] != y[i] {
				return ops.At(pair.By, fault.E(fault.ShapeMismatch, fault.Var(pair.A), fault.Gotf("%d rows of sequence %d, and %d of %s", x[i]-x[i-1], i-1, y[i]-x[i-1], fault.Quote(pair.B)),
					fault.Want("as many of both, since the op combines them row by row")))
			}
		}
	}
	return nil
}

// CheckRun refuses what Train cannot do, whatever the state and the files: a number of passes that is out of range, a program without a read op,
// datasets that the program does not read, datasets without files, unknown fetches, and a program that only reads, if the run fetches nothing.
func CheckRun(p *program.Program, run TrainOptions) error {
	if err := CheckPasses(run.Passes); err != nil {
		return err
	}
	read, err := ReadOp(p)
	if err != nil {
		return err
	}
	pipeline, err := reader.PipelineOf(p.Global(), read)
	if err != nil {
		return err
	}
	if err := checkBound(read, pipeline.Dataset, run.Data); err != nil {
		return err
	}
	if err := checkGlobs(pipeline.Dataset, run.Data[pipeline.Dataset]); err != nil {
		return err
	}
	if all := p.Global().Ops; len(run.Fetch) == 0 && all[len(all)-1] == read {
		return fault.E(fault.InvalidProgram, fault.On(read), fault.Got("a program that computes nothing from what it reads"), fault.Want("ops behind this one, or variables to fetch"),
			fault.Hint("a loss that no layer has returned (the zero layers.Variable) adds no op"))
	}
	return plan.CheckFetch(p.Global(), run.Fetch)
}

// AfterClose is the error of a call that comes after Close.
func AfterClose() error {
	return fault.E(fault.Canceled, fault.At("executor"), fault.Got("a call after Close"))
}
