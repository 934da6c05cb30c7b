package main

import (
	"path/filepath"
	"strings"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/jobspec"
)

// parseData reads the values of --data, of which several may name one dataset.
func parseData(values []string) ([]*job.DataBinding, error) {
	var data []*job.DataBinding
	byName := map[string]*job.DataBinding{}
	for _, value := range values {
		name, glob, ok := strings.Cut(value, "=")
		if !ok || name == "" || glob == "" {
			return nil, fault.E(fault.InvalidArgument, fault.At("--data"), fault.Got(fault.Quote(value)),
				fault.Want("NAME=GLOB, such as train='data/train-*'"))
		}
		if byName[name] == nil {
			byName[name] = &job.DataBinding{Dataset: name}
			data = append(data, byName[name])
		}
		byName[name].Globs = append(byName[name].Globs, glob)
	}
	return data, nil
}

// parseTrainers reads N or N:MAX.
func parseTrainers(value string, spec *job.JobSpec) error {
	least, most, err := jobspec.ParseTrainers(value)
	if err != nil {
		return inFile("--trainers", err)
	}
	spec.Trainers, spec.TrainersMax = least, max(least, most)
	return nil
}

// bindings returns the data of a job as executors take it.
func bindings(spec *job.JobSpec) map[string][]string {
	data := map[string][]string{}
	for _, d := range spec.Data {
		data[d.Dataset] = d.Globs
	}
	return data
}

// absolutePaths makes the paths of a job mean the same in a listener that works in another directory.
func absolutePaths(spec *job.JobSpec) (err error) {
	for _, d := range spec.Data {
		for i, glob := range d.Globs {
			if d.Globs[i], err = dataset.Absolute(glob); err != nil {
				return err
			}
		}
	}
	for _, path := range []*string{&spec.Save, &spec.Params} {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return fileFault(*path, err)
		}
		*path = absolute
	}
	return nil
}
