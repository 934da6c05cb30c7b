package edlcmd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/dataset/schema"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/policy"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/spf13/cobra"
)

// cacheFolder is the folder beside tables with the records that were made of them.
const cacheFolder = ".edl-records"

// A tableData lets runs read tables: it makes record files of them, beside the tables, and keeps these for the next run. So a run reads records as it does
// otherwise: trainers divide them, tasks are parts of them, and the ledger counts them.
type tableData struct {
	schema string // the file of --schema; empty: none
	used   bool
}

func (x *tableData) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&x.schema, "schema", "", "with --data NAME=TABLE: read tables (CSV, JSON lines, Parquet) by the schema `FILE` of \"edl data infer\"")
}

// read makes records of the tables among data, which p in the file model reads: a program that trains, the rows for training; one that evaluates, those for the test.
func (x *tableData) read(ctx context.Context, c *console, data []*job.DataBinding, model string, p *program.Program) error {
	set := testSet
	if trains(p) {
		set = trainSet
	}
	if err := fitRecords(data, model, p); err != nil {
		return err
	}
	return x.replace(ctx, c, "--data", data, set, func(s *schema.Schema) error { return fitReader(x.schema, s, model, p) })
}

// replace puts the globs of records in the place of those of tables, which flag has named. set is the part of the rows that is wanted where the schema divides them:
// trainSet or testSet. fits checks before that the schema makes what is read.
func (x *tableData) replace(ctx context.Context, c *console, flag string, data []*job.DataBinding, set string, fits func(*schema.Schema) error) error {
	for _, d := range data {
		tables := slices.DeleteFunc(slices.Clone(d.Globs), func(glob string) bool { return !schema.IsTable(glob) })
		if len(tables) == 0 {
			continue
		}
		at := fault.At(flag + " " + d.Dataset)
		switch {
		case len(tables) < len(d.Globs):
			record := slices.IndexFunc(d.Globs, func(glob string) bool { return !schema.IsTable(glob) })
			return fault.E(fault.InvalidArgument, at, fault.Gotf("tables and record files together: %s, %s", tables[0], d.Globs[record]), fault.Want("one of the two"))
		case x.schema == "":
			return fault.E(fault.InvalidArgument, at, fault.Got("a table, "+tables[0]), fault.Want("--schema FILE, which says what becomes of its columns"),
				fault.Hintf("\"edl data infer %s -o schema.yaml\" proposes one", tables[0]))
		case d.Follow:
			return fault.E(fault.Unsupported, at, fault.Got("tables that grow"), fault.Want("record files for --follow"), fault.Hint("\"edl data table\" makes record files"))
		}
		files, err := filesOf(tables)
		if err != nil {
			return err
		}
		s, err := schema.Load(x.schema)
		if err != nil {
			return err
		}
		if err := fits(s); err != nil {
			return err
		}
		records, err := x.records(ctx, c, s, files, set)
		if err != nil {
			return err
		}
		x.used, d.Globs = true, []string{records}
	}
	return nil
}

// unseen says why records of tables are where a listener does not find them, in its error about them. Other errors stay as they are.
func (x *tableData) unseen(err error) error {
	var f *fault.Fault
	if !x.used || !errors.As(err, &f) || f.Kind != fault.NotFound || !strings.HasPrefix(f.Where, "--data ") && !strings.HasPrefix(f.Where, "--eval-data ") {
		return err
	}
	told := *f
	told.Hint = "this command has made records of the tables, beside them: the machine of the listener must have them under the same path; \"edl data table\" makes records elsewhere"
	return &told
}

// checkUsed refuses a schema that nothing is read by: not data, and not the files that are fed.
func (x *tableData) checkUsed(data []*job.DataBinding, fed []string) error {
	if x.schema == "" || x.used {
		return nil
	}
	want := fault.Want("--data NAME=TABLE, such as train=clicks.csv or train='part-*.parquet'")
	wrong := func(got string, more ...fault.Field) error {
		return fault.E(fault.InvalidArgument, append(more, fault.At("--schema"), fault.Got(got), want)...)
	}
	if len(fed) > 0 {
		return wrong("the values of --feed: "+shortList(fed), fault.Hint("--feed reads rows of a table by the schema beside the model, where \"edl export --schema\" puts it"))
	}
	var globs []string
	for _, d := range data {
		globs = append(globs, d.Globs...)
	}
	if len(globs) == 0 {
		return wrong("no data")
	}
	return wrong("data that are no tables: "+shortList(globs), fault.Hint("names of tables end with "+strings.Join(schema.Extensions(), ", ")))
}

// filesOf lists the files of globs: globs in their order, the files of each by name.
func filesOf(globs []string) (files []string, err error) {
	for _, glob := range globs {
		if strings.Contains(glob, "://") {
			return nil, fault.E(fault.Unsupported, fault.At(glob), fault.Got("a table in a bucket"), fault.Want("a file, or record files in the bucket"), fault.Hint("\"edl data table\" makes record files"))
		}
		found, err := filepath.Glob(glob)
		if err != nil {
			return nil, fileFault(glob, err)
		}
		if len(found) == 0 {
			return nil, fault.E(fault.NotFound, fault.At("--data"), fault.Gotf("no file that matches %s", fault.Quote(glob)), fault.Want("at least one"))
		}
		files = append(files, found...)
	}
	return files, nil
}

// records returns the glob of the records of tables, and makes these unless an earlier run has done so from the same files by the same schema.
func (x *tableData) records(ctx context.Context, c *console, s *schema.Schema, files []string, set string) (glob string, err error) {
	var text bytes.Buffer
	if err := s.Write(&text); err != nil {
		return "", err
	}
	sum := sha256.New()
	sum.Write(text.Bytes())
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return "", fileFault(file, err)
		}
		fmt.Fprintf(sum, "\n%s %d %d", filepath.Base(file), info.Size(), info.ModTime().UnixNano())
	}
	parent := filepath.Join(filepath.Dir(files[0]), cacheFolder)
	dir := filepath.Join(parent, hex.EncodeToString(sum.Sum(nil)[:8]))
	if s.Split == nil {
		set = trainSet
	}
	glob = filepath.Join(dir, set+"-*")
	if _, err := os.Stat(filepath.Join(dir, schemaFile)); err == nil {
		return glob, nil
	}
	rows, err := convertTables(ctx, c, s, &text, files, parent, dir)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(c.err, "%s of %s are in %s, for the next run, too\n", count(rows, "row"), shortList(files), dir)
	return glob, nil
}

// convertTables makes the directory of records as a whole or not at all. Another run may do the same at this time: then one of the two directories stays.
func convertTables(ctx context.Context, c *console, s *schema.Schema, text *bytes.Buffer, files []string, parent, dir string) (rows int, err error) {
	if err := os.MkdirAll(parent, policy.FolderMode); err != nil {
		return 0, fileFault(parent, err)
	}
	made, err := os.MkdirTemp(parent, ".new-")
	if err != nil {
		return 0, fileFault(parent, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(made)) }()
	tables, err := openTables(files, s.Open)
	if err != nil {
		return 0, err
	}
	defer tables.close()
	var sets []*datasetFile
	for _, name := range []string{trainSet, testSet} {
		w, err := dataset.CreateShards(made, name, 1, recordio.Options{})
		if err != nil {
			return 0, err
		}
		defer w.Abort()
		sets = append(sets, &datasetFile{name: name, writer: w})
	}
	stop := tables.showProgress(c)
	err = schema.Convert(ctx, s, tables, runtime.GOMAXPROCS(0), sets[0].Write, sets[1].Write)
	if stop(); err != nil {
		return 0, err
	}
	for _, set := range sets {
		if err := set.writer.Close(); err != nil {
			return 0, err
		}
		rows += set.records
	}
	if err := writeLines(filepath.Join(made, schemaFile), schemaLines(text)); err != nil {
		return 0, err
	}
	if err := os.Chmod(made, policy.FolderMode); err != nil { // others may run jobs, too
		return 0, fileFault(made, err)
	}
	err = os.Rename(made, dir)
	if _, there := os.Stat(filepath.Join(dir, schemaFile)); there == nil {
		return rows, nil
	}
	return rows, fileFault(dir, err)
}

// give makes records of the tables of --data and --eval-data, which p in the file model reads, and refuses a schema that nothing is read by. eval then names the records;
// fed are the values of --feed.
func (x *tableData) give(ctx context.Context, c *console, data []*job.DataBinding, eval *evalFlags, model string, p *program.Program, fed []string) error {
	held, err := parseData("--eval-data", eval.data)
	if err != nil {
		return err
	}
	if trains(p) {
		if err := x.warnOfShared(c, data, held); err != nil {
			return err
		}
	}
	if err := x.read(ctx, c, data, model, p); err != nil {
		return err
	}
	evaluates := func(s *schema.Schema) error {
		if eval.program == "" {
			return fitReader(x.schema, s, model, p)
		}
		program, _, err := loadWhole(eval.program)
		if err != nil {
			return err
		}
		return fitReader(x.schema, s, eval.program, program)
	}
	if err := x.replace(ctx, c, "--eval-data", held, testSet, evaluates); err != nil {
		return err
	}
	eval.data = nil
	for _, d := range held {
		for _, glob := range d.Globs {
			eval.data = append(eval.data, d.Dataset+"="+glob)
		}
	}
	return x.checkUsed(append(data, held...), fed)
}

// warnOfShared says which files are read both to train and to evaluate, so that evaluations tell nothing about other rows. A schema that divides the rows of tables
// shares none.
func (x *tableData) warnOfShared(c *console, data, held []*job.DataBinding) error {
	divided := false
	if x.schema != "" {
		s, err := schema.Load(x.schema)
		if err != nil {
			return err
		}
		divided = s.Split != nil
	}
	train := map[string]bool{}
	for _, file := range filesBound(data) {
		train[resolved(file)] = true
	}
	var shared []string
	for _, file := range filesBound(held) {
		if train[resolved(file)] && !(divided && schema.IsTable(file)) {
			shared = append(shared, file)
		}
	}
	if len(shared) > 0 {
		fmt.Fprintf(c.err, "warning: --eval-data evaluates on rows that train, since --data has the same files: %s\n", shortList(shared))
	}
	return nil
}

// filesBound lists the files of data that are here, and globs as they are where none is. Errors in globs, who reads them reports.
func filesBound(data []*job.DataBinding) (files []string) {
	for _, d := range data {
		for _, glob := range d.Globs {
			found, err := filepath.Glob(glob)
			if err != nil || len(found) == 0 {
				found = []string{glob}
			}
			files = append(files, found...)
		}
	}
	return files
}

// resolved is a path that is the same for all names of a file; a URL as it is.
func resolved(path string) string {
	if strings.Contains(path, "://") {
		return path
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path
}
