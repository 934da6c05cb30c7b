package edlcmd

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/pflag"

	"github.com/edl-go/edl/dataset/schema"
	"github.com/edl-go/edl/edlcmd/internal/sweep"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
)

// trialReading say how trials read their data: flags of "edl sweep", or members of run in the sweep file.
var trialReading = []string{"batch-size", "schema"}

// takeReading makes the flags of the command that say how trials read their data members of run. Each is said once.
func takeReading(spec *sweep.Spec, flags *pflag.FlagSet, file string) error {
	for _, name := range trialReading {
		_, inFile := spec.Run[name]
		_, varies := spec.Parameters["batch_size"]
		given, varies := flags.Changed(name), varies && name == "batch-size"
		switch {
		case given && inFile:
			return fault.E(fault.InvalidArgument, fault.At("--"+name), fault.Gotf("it in %s, run, too", file), fault.Want("one of the two"))
		case varies && (given || inFile):
			return fault.E(fault.InvalidArgument, fault.At("--"+name), fault.Gotf("batch_size under the parameters of %s", file), fault.Want("one of the two"))
		case given:
			if spec.Run == nil {
				spec.Run = map[string]sweep.Texts{}
			}
			spec.Run[name] = sweep.Texts{flags.Lookup(name).Value.String()}
		}
	}
	return nil
}

// checkReads refuses a program that does not train on data files. One that is fed does so in batches whose size the trial, or all trials, must have.
func checkReads(spec *sweep.Spec, path string, p *program.Program, trial sweep.Trial) error {
	if !trains(p) {
		return fault.E(fault.InvalidArgument, fault.At(path), fault.Got("a program that trains nothing"), fault.Want("one that trains"))
	}
	_, all := spec.Run["batch-size"]
	if _, own := trial["batch_size"]; !reads(p) && !all && !own {
		return fault.E(fault.InvalidArgument, fault.At(path), fault.Got("a program that is fed, which does not say how many records a batch has"),
			fault.Want("--batch-size N, or batch_size under parameters"))
	}
	return nil
}

// giveTrials makes records of the tables among the data of a sweep of programs, by their paths, once for all trials, and lets trials read
// these. Without a schema it changes nothing: a trial refuses tables then.
func (x *tableData) giveTrials(ctx context.Context, c *console, spec *sweep.Spec, programs map[string]*program.Program) error {
	schemas := spec.Run["schema"]
	if len(schemas) == 0 {
		return nil
	}
	x.schema = schemas[len(schemas)-1]
	data, held := bindingsOf(spec.Data), bindingsOf(spec.EvalData)
	evaluate := programs
	if paths := spec.Run["eval"]; len(paths) > 0 {
		path := paths[len(paths)-1]
		p, _, err := loadWhole(path)
		if err != nil {
			return err
		}
		evaluate = map[string]*program.Program{path: p}
	}
	fit := func(programs map[string]*program.Program) func(*schema.Schema) error {
		return func(made *schema.Schema) error {
			for _, path := range slices.Sorted(maps.Keys(programs)) {
				if err := fitReader(x.schema, made, path, programs[path]); err != nil {
					return err
				}
			}
			return nil
		}
	}
	if err := x.replace(ctx, c, "data", data, trainSet, fit(programs)); err != nil {
		return err
	}
	if err := x.replace(ctx, c, "eval_data", held, testSet, fit(evaluate)); err != nil {
		return err
	}
	if err := x.checkUsed(append(data, held...), nil); err != nil {
		return err
	}
	spec.Data, spec.EvalData = textsOf(data), textsOf(held)
	delete(spec.Run, "schema")
	return nil
}

// bindingsOf is the data of a sweep file as jobs have it, by name.
func bindingsOf(texts map[string]sweep.Texts) (data []*job.DataBinding) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		data = append(data, &job.DataBinding{Dataset: name, Globs: slices.Clone(texts[name])})
	}
	return data
}

// textsOf undoes bindingsOf.
func textsOf(data []*job.DataBinding) map[string]sweep.Texts {
	texts := map[string]sweep.Texts{}
	for _, d := range data {
		texts[d.Dataset] = d.Globs
	}
	return texts
}
