package executor

import (
	"context"
	"os"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// Save implements Executor.
func (l *Local) Save(ctx context.Context, dir string, p *program.Program) error {
	if err := l.lock.checkCall(p); err != nil {
		return err
	}
	if err := l.lock.acquire(ctx); err != nil {
		return err
	}
	defer l.lock.release()
	files := FilesOf(ctx)
	if err := files.PrepareSave(dir, p); err != nil {
		return err
	}
	progress := l.stepper.progress
	return files.saveState(l.scope, dir, p, &progress)
}

// Load implements Executor.
func (l *Local) Load(ctx context.Context, from string, p *program.Program, options LoadOptions) (LoadReport, error) {
	if err := l.lock.checkCall(p); err != nil {
		return LoadReport{}, err
	}
	if err := l.lock.checkCallback("Load"); err != nil {
		return LoadReport{}, err
	}
	if err := l.lock.beginTraining(ctx, "waiting for the end of Train of this executor"); err != nil {
		return LoadReport{}, err
	}
	defer l.lock.endTraining()
	if err := l.lock.acquire(ctx); err != nil {
		return LoadReport{}, err
	}
	defer l.lock.release()
	return l.load(ctx, from, p, options)
}

// load reads everything before it changes the state.
func (l *Local) load(ctx context.Context, from string, p *program.Program, options LoadOptions) (LoadReport, error) {
	var values []namedTensor
	var progress Progress
	err := readUnchanged(from, p, func() (err error) {
		if values, err = readState(from, p, options); err == nil {
			progress, _, err = ReadProgress(from)
		}
		return err
	})
	if err != nil {
		return LoadReport{}, err
	}
	if all := Persistables(p); options.Partial && len(values) == 0 && len(all) > 0 {
		return LoadReport{}, fault.E(fault.NotFound, fault.At(from), fault.Got("no variable of the program"), fault.Want("a directory with some of them"))
	}
	if options.FromStart {
		progress = Progress{}
	}
	var report LoadReport
	for _, v := range values {
		report.Loaded = append(report.Loaded, v.name)
	}
	for _, name := range Persistables(p) {
		if _, ok := slices.BinarySearch(report.Loaded, name); !ok {
			report.Initialized = append(report.Initialized, name)
		}
	}
	initial, err := l.startup.valuesOf(ctx, p, report.Initialized)
	if err != nil {
		return LoadReport{}, err
	}
	if err := l.scope.setAll(append(values, initial...)); err != nil {
		return LoadReport{}, err
	}
	l.stepper.progress = progress
	return report, nil
}

// readState reads the values of the persistable variables of p, in the order of their names.
func readState(from string, p *program.Program, options LoadOptions) ([]namedTensor, error) {
	info, err := os.Stat(from)
	if err != nil {
		return nil, fault.File(fault.InvalidArgument, from, err)
	}
	var values []namedTensor
	switch {
	case info.IsDir():
		values, err = Files{}.readDirectory(from, p, options.Partial)
	case HoldsNames(from):
		values, err = readNamed(Files{}, from, p, options.Partial)
	case options.Partial:
		err = fault.E(fault.InvalidArgument, fault.At(from), fault.Got("one file, which does not hold the names of its variables"),
			fault.Want("a directory, to load the part of it that fits"))
	default:
		values, err = Files{}.readCombined(from, p)
	}
	if options.FromStart {
		rates := LearningRates(p)
		values = slices.DeleteFunc(values, func(v namedTensor) bool {
			_, isRate := rates[v.name]
			return isRate || v.name == program.LRDecayCounter
		})
	}
	return values, err
}

// LearningRates returns the constant learning rates of p: the variables, which update ops read and no op changes, with the values that the startup
// program of p gives them. What a schedule computes is not among them.
func LearningRates(p *program.Program) map[string]float64 {
	rates := map[string]float64{}
	if p.Startup == nil {
		return rates
	}
	initial := map[string]float64{}
	for _, op := range p.Startup.Global().Ops {
		if value, ok := op.Float("value"); ok && op.Type == "fill_constant" {
			initial[op.Out("Out")] = value
		}
	}
	writers := map[string]*program.Op{}
	var names []string
	for _, op := range p.Global().Ops {
		for _, name := range op.OutputNames() {
			writers[name] = op
		}
		if rate := op.In("LearningRate"); rate != "" && op.Role().Has(program.RoleOptimize) {
			names = append(names, rate)
		}
	}
	seen := map[string]bool{}
	for len(names) > 0 { // from the rate of a parameter, which may have a factor or another dtype, back to the rate of all
		name := names[0]
		names = names[1:]
		writer := writers[name]
		switch value, ok := initial[name]; {
		case seen[name]:
		case writer != nil && (writer.Type == "scale" || writer.Type == "cast"):
			names = append(names, writer.In("X"))
		case writer == nil && ok:
			rates[name] = value
		}
		seen[name] = true
	}
	return rates
}
