package edlcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// startFlags say with which state a run begins.
type startFlags struct {
	initial, partial, anew bool
	same                   bool // what the checkpoint lacks is what the startup program makes
	own                    bool // the model has its parameters with it
}

func (f *startFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.initial, "init", false, "evaluate or predict with initial parameters, which nothing has trained")
	flags.BoolVar(&f.partial, "partial", false, "with --params: load what fits, initialise the other variables, and list them")
	flags.BoolVar(&f.anew, "from-start", false, "with --params: begin with the first step and the first record")
}

// placedAt names an address in an error in place of the temporary folder that its files were copied to.
func placedAt(err error, dir, address string) error {
	var known *fault.Fault
	if !errors.As(err, &known) || !strings.HasPrefix(known.Where, dir) {
		return err
	}
	c := *known
	c.Where = address + strings.TrimPrefix(known.Where, dir)
	return &c
}

// options is how the parameters are loaded.
func (f *startFlags) options() executor.LoadOptions {
	return executor.LoadOptions{Partial: f.partial || f.same, FromStart: f.anew}
}

// unpack writes the variables of a checkpoint to a new directory, for a run that begins with the first step and the first record.
func (f *startFlags) unpack(ctx context.Context, address string, p *program.Program, notices io.Writer) (dir string, err error) {
	k, err := checkpoint.Find(ctx, address)
	if err != nil {
		return "", err
	}
	defer k.Close()
	hash, err := p.Hash()
	if err != nil {
		return "", err
	}
	f.anew, f.same = trains(p), slices.Equal(hash[:], k.Manifest.Program)
	if dir, err = os.MkdirTemp("", "edl-params-"); err != nil {
		return "", fault.Wrap(fault.Unavailable, "parameters of "+address, err)
	}
	if err := k.Export(ctx, dir); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	if notices != nil {
		fmt.Fprintf(notices, "parameters after %d steps (%s)\n", k.Manifest.Progress.GetSteps(), k.Address())
	}
	return dir, nil
}

// check refuses flags that would have no effect, and results of parameters that nothing has trained. fed: the run is fed, and p is what it runs of a program that trains.
func (f *startFlags) check(flags *pflag.FlagSet, spec *job.JobSpec, p *program.Program, fed bool) error {
	if spec.Params == "" {
		if err := refuseIdle(flags, []string{"partial", "from-start"}, "a run that loads no parameters", "it together with --params PATH"); err != nil {
			return err
		}
	}
	nothing := "a program that trains nothing"
	if fed {
		nothing = "a run that is fed, which computes what is fetched and trains nothing"
	}
	switch {
	case trains(p) && fed:
		return refuseIdle(flags, []string{"init"}, "a step of training on a cluster, which begins with the initial parameters where --params gives no others", "no --init; or no --remote, to compute what is fetched and train nothing")
	case trains(p):
		return refuseIdle(flags, []string{"init"}, "a program that trains", "one that only evaluates or predicts")
	}
	if err := refuseIdle(flags, []string{"from-start"}, nothing, "one that trains"); err != nil {
		return err
	}
	if f.own {
		return refuseIdle(flags, []string{"init"}, "a model that has its own parameters", "a program")
	}
	if spec.Params == "" && !f.initial && len(executor.Persistables(p)) > 0 {
		return fault.E(fault.InvalidArgument, fault.Got("no parameters for "+nothing),
			fault.Want("--params PATH, or --init to use the initial parameters of the program"))
	}
	return nil
}

// begins returns the progress that a run begins with, and what to say when it goes on with an earlier one, or with another learning rate than the
// program has. It knows nothing of a directory that is only on the machine that loads it.
func (f *startFlags) begins(spec *job.JobSpec, p *program.Program) (progress executor.Progress, said []string, err error) {
	if spec.Params == "" || f.anew || !trains(p) {
		return progress, nil, nil
	}
	name := filepath.Base(spec.Params)
	found, _, err := executor.ReadProgress(spec.Params)
	switch {
	case errors.Is(err, fault.NotFound) || err == nil && found == (executor.Progress{}):
	case err != nil:
		return progress, nil, err
	case found.Reader == executor.ReaderHash(p):
		progress = found
		said = append(said, fmt.Sprintf("goes on at pass %d, step %d (%s)", found.Pass, found.Steps, name))
	default:
		progress = executor.Progress{Steps: found.Steps}
		said = append(said, fmt.Sprintf("goes on at step %d, with the first record (%s)", found.Steps, name))
	}
	rates := executor.LearningRates(p)
	for _, rate := range slices.Sorted(maps.Keys(rates)) {
		saved, err := readTensors(filepath.Join(spec.Params, rate))
		if err != nil || len(saved) != 1 || float32(saved[0].Mean) == float32(rates[rate]) {
			continue // what is wrong with the file, the executor says
		}
		said = append(said, fmt.Sprintf("learning rate %.6g (%s); that of the program, %.6g, is taken with --from-start", float64(saved[0].Mean), name,
			rates[rate]))
	}
	return progress, said, nil
}

// open returns an executor that has loaded the parameters or, where nothing but TrainOptions.Params is needed for that, their path.
func (f *startFlags) open(ctx context.Context, c *console, where place, spec *job.JobSpec, p *program.Program) (executor.Executor, string, error) {
	params := spec.Params
	if f.options() == (executor.LoadOptions{}) {
		e, err := openExecutor(where, spec)
		return e, params, err
	}
	spec.Params = "" // the job takes the state of the executor
	e, err := openExecutor(where, spec)
	if err != nil {
		return nil, "", err
	}
	report, err := e.Load(ctx, params, p, f.options())
	if err != nil {
		closeExecutor(e, &err)
		return nil, "", err
	}
	if f.partial {
		fmt.Fprintf(c.err, "loaded %d variables; initialised %s\n", len(report.Loaded), cmp.Or(strings.Join(report.Initialized, ", "), "none"))
	}
	return e, "", nil
}
