package edlcmd

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A batchFlag says how many records a global batch has, in place of what the program says. A program that is fed says nothing of it.
type batchFlag struct {
	n int32
}

func (f *batchFlag) add(cmd *cobra.Command) {
	cmd.Flags().Int32Var(&f.n, "batch-size", 0, "read global batches of `N` records, not of as many as the program says; a program that is fed needs it, to read --data")
}

// give lets p read the data of spec in batches of the size of the flag: whether p is fed or has a reader. Without the flag, p stays as it is.
func (f *batchFlag) give(flags *pflag.FlagSet, spec *job.JobSpec, p *program.Program) error {
	if err := f.attach(flags, spec, p); err != nil {
		return err
	}
	return f.set(flags, p)
}

// attach lets a program that trains on what it is fed read the data of spec, as those do that Python has fed.
func (f *batchFlag) attach(flags *pflag.FlagSet, spec *job.JobSpec, p *program.Program) error {
	if reads(p) || len(spec.Data) == 0 || !trains(p) {
		return nil
	}
	refuse := func(got, want string) error {
		return fault.E(fault.InvalidArgument, fault.At("--data"), fault.Got(got), fault.Want(want))
	}
	switch {
	case len(spec.Data) > 1:
		return refuse("several datasets for a program that is fed", "one, whose records hold the variables that are fed")
	case !flags.Changed("batch-size"):
		return refuse("a program that is fed, which does not say how many records a batch has", "it together with --batch-size N")
	case f.n < 1:
		return tooFew("--batch-size", int64(f.n))
	}
	return reader.Attach(p, spec.Data[0].Dataset, f.n)
}

// set replaces the size of global batches, if the flag is given.
func (f *batchFlag) set(flags *pflag.FlagSet, p *program.Program) error {
	if !flags.Changed("batch-size") {
		return nil
	}
	if f.n < 1 {
		return tooFew("--batch-size", int64(f.n))
	}
	found := false
	for _, op := range p.Global().Ops {
		switch {
		case op.Type == "create_batch_reader":
			op.SetAttr("batch_size", f.n)
			found = true
		case op.Type == "dpsgd" && noiseFor(op) != float64(f.n):
			return ops.At(op, fault.E(fault.InvalidArgument, fault.At("--batch-size"), fault.Got("an update whose noise depends on the size of batches"),
				fault.Wantf("its batch_size, %v", noiseFor(op))))
		}
	}
	switch {
	case found:
		return nil
	case !reads(p) && !trains(p):
		return fault.E(fault.InvalidArgument, fault.At("--batch-size"), fault.Got("a program that is fed and trains nothing"),
			fault.Want("one that reads batches, or that trains on what it is fed"), fault.Hint("\"edl run --feed\" runs this one; the rows of what it is fed are its batch"))
	default:
		return fault.E(fault.InvalidArgument, fault.At("--batch-size"), fault.Got("a program that does not divide its data into batches"), fault.Want("one that reads batches"))
	}
}

// noiseFor returns the size of batches by which dpsgd divides its noise.
func noiseFor(op *program.Op) float64 {
	if n, ok := op.Float("batch_size"); ok {
		return n
	}
	def, _ := ops.Lookup(op.Type)
	for _, a := range def.Attrs {
		if n, ok := a.Default.(float32); ok && a.Name == "batch_size" {
			return float64(n)
		}
	}
	return 0
}
