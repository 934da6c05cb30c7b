package edlcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/edl-go/edl/dataset/schema"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/tensor"
	"github.com/spf13/cobra"
)

// exportFlags are the flags of "edl export".
type exportFlags struct {
	program  string
	fetch    []string
	feed     []string
	dir      string
	format   *choice
	combined bool
	schema   string

	overwrite bool

	fold    bool
	samples []string
}

func newExport(c *console) *cobra.Command {
	f := &exportFlags{}
	cmd := &cobra.Command{
		Use:   "export MODEL|CHECKPOINT",
		Short: "Write a trained model for use: its inference program and its parameters",
		Long: `Write the program that computes predictions, and its parameters, to a directory. MODEL is a directory that --save has written, a directory
that holds ` + modelFile + `, one file of parameters, or an ONNX model: *.onnx, or a directory that holds ` + export.ONNXFile + `. CHECKPOINT is STORE or STORE@STEPS, as "edl checkpoint" takes it.

The program is pruned to what --fetch needs: without labels, the loss, the optimizer and data readers; dropout and batch norm are in their form for
inference. What it is fed are the inputs that are left.`,
		Example: `  edl export model --program program.pb --fetch prediction -o served
  edl export s3://models/digits@12000 --program program.pb --fetch prediction -o served --format safetensors
  edl run served --feed x=x.npy
  edl export model --program program.pb --fetch prediction -o served --format onnx
  edl export resnet.onnx -o served`,
		Args: cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.program, "program", "", "the program `FILE` that was trained; needed unless MODEL holds "+modelFile)
	flags.StringSliceVar(&f.fetch, "fetch", nil, "the model computes the variables `NAME,...` (default: what the program's fetch ops name)")
	flags.StringSliceVar(&f.feed, "feed", nil, "the model is fed the variables `NAME,...`, in this order (default: all that it needs)")
	flags.StringVarP(&f.dir, "out", "o", "", "write to the directory `DIR`, or to a URL such as s3://bucket/folder")
	flags.BoolVar(&f.overwrite, "overwrite", false, "replace another model there")
	flags.BoolVar(&f.combined, "combined", false, "with the format fluid: all parameters in one file, "+combinedFile)
	flags.StringVar(&f.schema, "schema", "", "write the schema `FILE` of \"edl data table\" beside the model, by which it was trained (default: that beside MODEL)")
	flags.BoolVar(&f.fold, "fold", false, "compute constants once, and make batch norms part of the weights before them; results differ by rounding, and are compared on sample rows")
	flags.StringArrayVar(&f.samples, "sample", nil, "with --fold: compare on the rows of a `FILE`, given as to the flag --feed of \"edl run\", or a table of the schema; repeatable (default: rows that are made up)")
	f.format = choiceFlag(cmd, "format", "how parameters are written", string(export.Fluid), string(export.Safetensors), string(export.NPZ), string(export.ONNX))
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return exportModel(cmd.Context(), c, f, args[0]) }
	return cmd
}

func exportModel(ctx context.Context, c *console, f *exportFlags, from string) error {
	format := export.Format(f.format.value)
	switch {
	case f.dir == "":
		return fault.E(fault.InvalidArgument, fault.At("edl export"), fault.Got("no directory to write to"), fault.Want("-o DIR"))
	case f.combined && format != export.Fluid:
		return fault.E(fault.InvalidArgument, fault.At("--combined"), fault.Got("a format that has one file for all parameters"), fault.Want("--format fluid"))
	case f.combined:
		format = export.Combined
	}
	if len(f.samples) > 0 && !f.fold {
		return fault.E(fault.InvalidArgument, fault.At("--sample"), fault.Got("an export that changes no bit"), fault.Want("it together with --fold"))
	}
	held, err := executor.HoldDirectory(f.dir)
	if err != nil {
		return err
	}
	defer held.Release()
	if bucket.IsURL(from) {
		dir, found, done, err := fetchModel(ctx, from)
		if err != nil && f.program == "" { // else a checkpoint, whose errors say more
			return err
		}
		if found {
			defer done()
			from = dir
		}
	}
	if model := onnxOf(from); model != "" {
		return exportONNX(ctx, c, f, format, from, model)
	}
	path, params := f.program, from
	if path == "" {
		if kind, err := kindOf(from); err != nil || kind != programFile {
			return fault.E(fault.InvalidArgument, fault.At(from), fault.Got("no "+modelFile+" in it"), fault.Want("--program FILE, the program that was trained"))
		}
		path, params = from, ""
	}
	p, ofModel, err := loadWhole(path)
	if err != nil {
		return err
	}
	if params == "" {
		params = ofModel
	}
	if len(f.fetch) == 0 && len(p.Targets()) == 0 {
		return fault.E(fault.InvalidArgument, fault.At(path), fault.Got("a program without fetch ops"), fault.Want("--fetch NAME,..., the variables that the model computes"))
	}
	inference, err := export.Program(p, f.feed, f.fetch)
	if err != nil {
		return err
	}
	if sameFile(params, f.dir) {
		return fault.E(fault.InvalidArgument, fault.At("-o "+f.dir), fault.Got("the directory that is exported"), fault.Want("another one"))
	}
	if !f.fold { // else the parameters are others
		if err := export.CheckModel(ctx, f.dir, inference, f.overwrite); err != nil {
			return err
		}
	}
	var more []export.File
	if f.schema == "" {
		f.schema = schemaIn(from)
	}
	if f.schema != "" {
		if more, err = schemaGiven(f.schema, inference); err != nil {
			return err
		}
	}
	write := func(value func(string) (*tensor.Tensor, error)) error {
		return f.write(ctx, c, export.Model{Program: inference, Value: value}, format, more)
	}
	if isParameters(params, inference) {
		value, err := valuesOfFile(params, p, inference)
		if err != nil {
			return err
		}
		return write(value)
	}
	if store := checkpoint.StoreOf(params); !strings.Contains(store, "://") {
		if _, err := os.Stat(store); err != nil {
			return fault.File(fault.InvalidArgument, store, err)
		}
	}
	return withCheckpoint(ctx, params, func(k *checkpoint.Checkpoint) error {
		return write(func(name string) (*tensor.Tensor, error) { return k.Value(ctx, name) })
	})
}

// write writes a model, folded if the user says so.
func (f *exportFlags) write(ctx context.Context, c *console, m export.Model, format export.Format, more []export.File) error {
	if f.fold {
		folded, said, err := f.folded(ctx, m)
		if err == nil {
			err = export.CheckModel(ctx, f.dir, folded.Program, f.overwrite)
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(c.err, said)
		m = folded
	}
	said, err := writeExport(f.dir, m.Program, format, m.Value, more...)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.err, said)
	return err
}

// mostFolded is by how much results of a folded model may differ from those of the model, as a part of the largest of them. Rounding of float32 makes 1e-7 in each
// of some hundred layers.
const mostFolded = 1e-3

// folded folds a model, compares what both compute, and says what it has done.
func (f *exportFlags) folded(ctx context.Context, m export.Model) (out export.Model, said string, err error) {
	var feed executor.Feed
	if len(f.samples) > 0 {
		if len(f.samples) == 1 {
			feed, err = feedOfRows(ctx, f.schema, f.samples[0], m.Program)
		}
		if feed == nil && err == nil {
			feed, err = readFeeds(m.Program, m.Program, f.samples, nil, feedBudget(place{}))
		}
		if err == nil {
			err = checkFeeds(m.Program, feed)
		}
		if err != nil {
			return m, "", f.ofSamples(inFile("--sample", err))
		}
	} else if feed, err = export.Samples(m.Program); err != nil {
		return m, "", fault.E(fault.KindOf(err), fault.At("--fold"), fault.Cause(err), fault.Hint("--sample FILE names rows to compare the models on"))
	}
	folded, err := export.Fold(ctx, m.Program, m.Value)
	if err != nil {
		return m, "", inFile("--fold", err)
	}
	out = export.Model{Program: folded.Program, Value: folded.Value}
	d, err := export.Difference(ctx, out, m, feed)
	if err != nil {
		return m, "", fault.E(fault.KindOf(err), fault.At("--fold"), fault.Cause(err), fault.Hint("--sample FILE names rows to compare the models on"))
	}
	if d > mostFolded {
		return m, "", fault.E(fault.Unsupported, fault.At("--fold"), fault.Gotf("results that differ by %.2g of the largest", d), fault.Wantf("at most %g", mostFolded),
			fault.Hint("export without --fold"))
	}
	return out, fmt.Sprintf("folded %d constants and %d batch norms; on sample rows results differ by %.2g of the largest", folded.Constants, folded.Norms, d), nil
}

// sameFile reports whether two paths lead to one file.
func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	second, wrong := os.Stat(b)
	return err == nil && wrong == nil && os.SameFile(first, second)
}

// isParameters reports whether a path is that of parameters of p: a file, or a directory with a file for one of them. Otherwise it is that of a store of
// checkpoints.
func isParameters(path string, p *program.Program) bool {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return err == nil
	}
	names := executor.Persistables(p)
	for _, name := range append(names, executor.ProgressFile, executor.IncompleteFolder) {
		if _, err := os.Lstat(filepath.Join(path, name)); err == nil {
			return true
		}
	}
	return len(names) == 0
}

// valuesOfFile reads the parameters of an inference program. trained is the program whose parameters are in a combined file.
func valuesOfFile(path string, trained, inference *program.Program) (func(string) (*tensor.Tensor, error), error) {
	scope, err := export.LoadParams(path, trained, inference)
	return valuesOfScope(scope), ofWholeModel(err)
}

// ofWholeModel is an error of parameters that are wanted as a whole, where no flag loads a part of them.
func ofWholeModel(err error) error {
	var c *fault.Fault
	if !errors.As(err, &c) || !strings.Contains(c.Hint, "--partial") {
		return err
	}
	whole := *c
	whole.Hint = "give the program that these parameters were trained with, or the parameters of this one"
	return &whole
}

func valuesOfScope(scope *executor.Scope) func(string) (*tensor.Tensor, error) {
	return func(name string) (*tensor.Tensor, error) {
		if t, ok := scope.Find(name); ok {
			return t, nil
		}
		return nil, fault.E(fault.NotFound, fault.Var(name), fault.Got("no value to export"), fault.Want("a program that was trained or loaded"))
	}
}

// writeExport writes a model, and returns a line that says what it takes and computes.
func writeExport(dir string, inference *program.Program, format export.Format, value func(string) (*tensor.Tensor, error), more ...export.File) (said string, err error) {
	bytes, err := export.Write(dir, inference, format, value, more...)
	if err != nil {
		return "", err
	}
	of := func(names []string) string {
		var all []string
		for _, name := range names {
			v, _ := inference.Global().Var(name)
			all = append(all, describe(v))
		}
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("exported %s to %s: from %s it computes %s", humanBytes(bytes), dir, of(inference.Feeds()), of(inference.Targets())), nil
}

// runExport is the export at the end of "edl run".
type runExport struct {
	dir     string
	targets []string
	said    string // of the last write; empty: none
	more    []export.File
}

// program returns the program that is exported, before the run: nil when nothing is. It checks the directory, too, and looks for the schema of the data.
func (x *runExport) program(ctx context.Context, p *program.Program, spec *job.JobSpec, remote bool) (*program.Program, error) {
	if x.dir == "" {
		return nil, nil
	}
	if remote && !trains(p) {
		return nil, fault.E(fault.InvalidArgument, fault.At("--export"), fault.Got("a program that trains nothing, on a cluster"), fault.Want("one that trains"),
			fault.Hint("\"edl export\" exports what is trained"))
	}
	fetch := spec.Fetch
	if len(x.targets) > 0 {
		fetch = x.targets
	}
	inference, err := export.Program(p, nil, fetch)
	if err != nil {
		return nil, fault.E(fault.KindOf(err), fault.At("--export"), fault.Cause(err), fault.Hint("--export-fetch NAME,... says what the model computes"))
	}
	var globs []string
	for _, d := range spec.Data {
		globs = append(globs, d.Globs...)
	}
	if x.more, err = schemaBeside(globs, inference); err != nil {
		return nil, err
	}
	return inference, export.Prepare(ctx, x.dir, inference, spec.Overwrite)
}

// write exports what an executor has trained. The state of a cluster comes here in a directory for temporary files.
func (x *runExport) write(ctx context.Context, c *console, e executor.Executor, inference *program.Program) (err error) {
	if inference == nil {
		return nil
	}
	var value func(string) (*tensor.Tensor, error)
	if local, ok := e.(*executor.Local); ok {
		value = valuesOfScope(local.Scope())
	} else {
		dir, err := os.MkdirTemp("", "edl-export-")
		if err != nil {
			return fileFault(os.TempDir(), err)
		}
		defer os.RemoveAll(dir)
		if err := e.Save(ctx, dir, inference); err != nil {
			return err
		}
		if value, err = valuesOfFile(dir, inference, inference); err != nil {
			return err
		}
	}
	return executor.RetrySave(ctx, func() (err error) {
		x.said, err = writeExport(x.dir, inference, export.Fluid, value, x.more...)
		return err
	}, func(err error, pause time.Duration) {
		fmt.Fprintf(c.err, "edl: %v; next try after %v\n", err, pause)
	})
}

// ofSamples says of rows that were read as the values of variables how a table is given.
func (f *exportFlags) ofSamples(err error) error {
	var c *fault.Fault
	if !errors.As(err, &c) || f.schema != "" || c.Hint != "" || len(f.samples) != 1 || !schema.IsTable(f.samples[0]) {
		return err
	}
	hinted := *c
	hinted.Hint = "--schema FILE says what becomes of the columns of a table"
	return &hinted
}
