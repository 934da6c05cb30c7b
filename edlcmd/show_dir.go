package edlcmd

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
)

// A dirReport is what a directory without a program holds: saved variables, record files, or both.
type dirReport struct {
	Progress  *progressReport  `json:"progress"` // null: the directory has none
	Variables []variableReport `json:"variables"`
	Records   []shardReport    `json:"records"`
	Other     []string         `json:"other"` // files that are neither
}

type (
	progressReport struct {
		Steps uint64 `json:"steps"`
		Pass  int    `json:"pass"`  // of the next batch
		Batch uint64 `json:"batch"` // of the next batch, in its pass
	}
	variableReport struct {
		Name string `json:"name"` // of the file
		tensorReport
		bytes int64
	}
	shardReport struct {
		File string `json:"file"`
		recordsReport
	}
)

// showDirectory lists what lies in a directory and below it.
func showDirectory(ctx context.Context, c *console, dir, output string) error {
	r, err := readDirectory(ctx, dir)
	if err != nil {
		return err
	}
	if len(r.Variables) == 0 && len(r.Records) == 0 {
		return fault.E(fault.NotFound, fault.At(dir), fault.Got("a directory without "+modelFile+", saved variables and records"),
			fault.Want("one that has some of these, or a file"))
	}
	if output == "json" {
		return writeJSON(c.out, r)
	}
	if err := writeVariables(c.out, r); err != nil {
		return err
	}
	if err := writeShards(c.out, r.Records, len(r.Variables) > 0); err != nil {
		return err
	}
	if len(r.Other) > 0 {
		_, err = fmt.Fprintf(c.out, "other files: %s\n", strings.Join(r.Other, ", "))
	}
	return err
}

// showNamed lists the tensors of a file that has their names.
func showNamed(ctx context.Context, c *console, path, output string) error {
	r := dirReport{Variables: []variableReport{}, Records: []shardReport{}, Other: []string{}}
	if err := r.add(ctx, "", path); err != nil {
		return err
	}
	if output == "json" {
		return writeJSON(c.out, r)
	}
	return writeTensors(c.out, r.Variables)
}

func readDirectory(ctx context.Context, dir string) (dirReport, error) {
	r := dirReport{Variables: []variableReport{}, Records: []shardReport{}, Other: []string{}}
	progress, found, err := executor.ReadProgress(dir)
	if err != nil {
		return r, err
	}
	if found {
		r.Progress = &progressReport{progress.Steps, progress.Pass, progress.Batch}
	}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fileFault(path, err)
		case ctx.Err() != nil:
			return ctx.Err()
		case entry.IsDir() || path == filepath.Join(dir, executor.ProgressFile) || executor.IsTemporary(path):
			return nil
		}
		name, err := filepath.Rel(dir, path) // a variable with a slash in its name is in a folder
		if err != nil {
			return fileFault(path, err)
		}
		return r.add(ctx, name, path)
	})
	return r, err
}

// add reports one file.
func (r *dirReport) add(ctx context.Context, name, path string) error {
	kind, err := kindOf(path)
	switch {
	case err != nil: // empty, a socket or the like
		r.Other = append(r.Other, name)
	case kind == tensorFile:
		tensors, err := readTensors(path)
		if err != nil {
			return err
		}
		for i, t := range tensors {
			label := name
			if len(tensors) > 1 {
				label = fmt.Sprintf("%s[%d]", name, i)
			}
			r.Variables = append(r.Variables, variableReport{label, t, t.bytes})
		}
	case kind == namedFile:
		values, err := executor.ReadNamed(path)
		if err != nil {
			return err
		}
		for _, variable := range slices.Sorted(maps.Keys(values)) {
			t := describeTensor(values[variable])
			r.Variables = append(r.Variables, variableReport{variable, t, t.bytes})
		}
	case kind == recordFile:
		records, err := readRecords(ctx, path)
		if err != nil {
			return err
		}
		r.Records = append(r.Records, shardReport{name, records})
	default:
		r.Other = append(r.Other, name)
	}
	return nil
}

// writeVariables writes a table of the saved variables, and the progress that was saved with them.
func writeVariables(w io.Writer, r dirReport) error {
	if len(r.Variables) == 0 {
		return nil
	}
	if err := writeTensors(w, r.Variables); err != nil {
		return err
	}
	p := r.Progress
	if p == nil {
		_, err := fmt.Fprintln(w, "no progress: a run with --params begins with the first step and the first record")
		return err
	}
	_, err := fmt.Fprintf(w, "progress: %s; the next batch is batch %d of pass %d\n", count(int(p.Steps), "step"), p.Batch, p.Pass)
	return err
}

// writeTensors writes a table of variables, and what they take.
func writeTensors(w io.Writer, variables []variableReport) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "VARIABLE\tTENSOR\tMIN\tMEAN\tMAX\tNOT FINITE")
	total := int64(0)
	for _, v := range variables {
		fmt.Fprintf(t, "%s\t%s\n", v.Name, v.row())
		total += v.bytes
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s, %s\n", count(len(variables), "variable"), humanBytes(total))
	return err
}

// writeShards writes a table of the record files. apart puts an empty line before it.
func writeShards(w io.Writer, shards []shardReport, apart bool) error {
	if len(shards) == 0 {
		return nil
	}
	if apart {
		fmt.Fprintln(w)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FILE\tRECORDS\tCHUNKS\tSTORED\tLAYOUT\tFIELDS OF A RECORD")
	records, bytes := int64(0), int64(0)
	for _, s := range shards {
		fields := make([]string, len(s.Fields))
		for i, f := range s.Fields {
			fields[i] = f.String()
		}
		if s.Fields == nil {
			fields = []string{"-"}
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\n", s.File, s.recordsReport.Records, len(s.Chunks), humanBytes(s.Bytes), s.Layout, strings.Join(fields, ", "))
		records, bytes = records+s.recordsReport.Records, bytes+s.Bytes
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s, %s, %s\n", count(len(shards), "file"), count(int(records), "record"), humanBytes(bytes))
	return err
}

// showProgress shows the progress file of a directory of saved variables.
func showProgress(c *console, path, output string) error {
	p, _, err := executor.ReadProgress(filepath.Dir(path))
	if err != nil {
		return err
	}
	if output == "json" {
		return writeJSON(c.out, progressReport{p.Steps, p.Pass, p.Batch})
	}
	_, err = fmt.Fprintf(c.out, "progress: %s; the next batch is batch %d of pass %d\n", count(int(p.Steps), "step"), p.Batch, p.Pass)
	return err
}

// count writes a number with its noun: "1 step", "2 steps".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
