package edlcmd

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// overrides are the flags that replace what a program declares. Each is refused where it would change nothing.
type overrides struct {
	rate  float64
	batch batchFlag
	seed  int64
	class []string
	again bool // the run goes on with one that had the same overrides: the learning rate is saved, and nothing is refused that had an effect there
}

func (o *overrides) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Float64Var(&o.rate, "learning-rate", 0, "train with the constant learning rate `X`, not with that of the program")
	o.batch.add(cmd)
	flags.StringSliceVar(&o.class, "class-weight", nil, "the loss of a row counts as often as its class says, as `CLASS=WEIGHT,...`; other classes count once")
	flags.Int64Var(&o.seed, "seed", 0, "draw initial values, dropout, shuffles and other chance as a program with the seed `N` does")
}

// apply changes p, which the run of spec trains. goesOn says that the learning rate of an earlier run is loaded.
func (o *overrides) apply(flags *pflag.FlagSet, spec *job.JobSpec, p *program.Program, goesOn bool) error {
	if flags.Changed("learning-rate") && !o.again {
		if err := o.setRate(spec, p, goesOn); err != nil {
			return err
		}
	}
	if err := o.batch.set(flags, p); err != nil {
		return err
	}
	if flags.Changed("class-weight") {
		if err := setClassWeights(p, o.class); err != nil {
			return err
		}
	}
	if flags.Changed("seed") {
		return o.setSeed(p, goesOn)
	}
	return nil
}

// setRate replaces the constant learning rates of p, which are all equal.
func (o *overrides) setRate(spec *job.JobSpec, p *program.Program, goesOn bool) error {
	refuse := func(got, want string) error {
		return fault.E(fault.InvalidArgument, fault.At("--learning-rate"), fault.Got(got), fault.Want(want))
	}
	if !(o.rate >= 0) || o.rate > math.MaxFloat32 {
		return refuse(strconv.FormatFloat(o.rate, 'g', -1, 64), "a number from 0")
	}
	rates := executor.LearningRates(p)
	values := slices.Compact(slices.Sorted(maps.Values(rates)))
	switch {
	case !trains(p):
		return refuse("a program that trains nothing", "one that trains")
	case len(rates) == 0:
		return refuse("a program that computes its learning rate by a schedule, or is fed it", "one with a constant rate")
	case len(values) > 1:
		return refuse("a program with several learning rates", "one with a single constant rate")
	case spec.Resume != "":
		return refuse("a run that goes on with the learning rate of a checkpoint", "it without --resume")
	case goesOn:
		return refuse("a run that goes on with the saved learning rate", "it together with --from-start, or without --params")
	}
	for _, op := range p.Startup.Global().Ops {
		if _, ok := rates[op.Out("Out")]; ok && op.Type == "fill_constant" {
			op.SetAttr("value", float32(o.rate))
		}
	}
	return nil
}

// seedAttrs are the attributes with which ops begin to draw.
var seedAttrs = []string{"seed", "startup_seed", "rounding_seed"}

// setSeed gives p the seed with which a model would have been built. All its seeds keep their differences: those of the model become o.seed, and those of
// shuffles, which the user has chosen, others.
func (o *overrides) setSeed(p *program.Program, goesOn bool) error {
	was, known, drawn := int64(0), false, 0
	each := func(p *program.Program, f func(op *program.Op, name string, value int64)) {
		if p == nil {
			return
		}
		for _, b := range p.Blocks {
			for _, op := range b.Ops {
				for _, name := range seedAttrs {
					if value, ok := op.Int(name); ok {
						f(op, name, value)
					}
				}
			}
		}
	}
	each(p.Startup, func(_ *program.Op, name string, value int64) {
		if !known && name == "seed" {
			was, known = value, true
		}
		if !goesOn {
			drawn++
		}
	})
	each(p, func(*program.Op, string, int64) { drawn++ })
	if drawn == 0 && !o.again {
		return fault.E(fault.InvalidArgument, fault.At("--seed"), fault.Got("a run that leaves nothing to chance"), fault.Want("a program that draws initial values, dropout or shuffles"))
	}
	change := func(op *program.Op, name string, value int64) {
		if _, short := op.Attrs[name].(int32); short {
			op.SetAttr(name, int32(value^was^o.seed))
			return
		}
		op.SetAttr(name, value^was^o.seed)
	}
	each(p.Startup, change)
	each(p, change)
	return nil
}
