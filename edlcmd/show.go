package edlcmd

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/edl-go/edl/dataset/schema"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/program/draw"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/encoding/protojson"
)

// showFlags are the flags of "edl show".
type showFlags struct {
	as   *choice
	svg  string
	full bool

	support bool
	plan    bool
	rows    int64
	workers int
	values  string
	startup startupFlag
}

func newShow(c *console) *cobra.Command {
	f := &showFlags{}
	cmd := &cobra.Command{
		Use:   "show FILE",
		Short: "Show a program, parameters, records, a job file or task queues",
		Long: `Show what is in a file: a program, an ONNX model, saved parameters, training records, a job file, or a snapshot of task queues. The kind of the file follows
from its content; a job file is one whose name ends in .yaml or .yml. Of a directory with ` + modelFile + ` show the program, of any other the saved
variables with the progress of training, and the record files. Of a checkpoint, STORE[@STEPS], show the variables.`,
		Example: `  edl show program.pb
  edl show program.pb --svg program.svg
  edl show model
  edl show model/fc_0.w_0
  edl show model --values fc_0.w_0
  edl show ops conv2d`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return showFile(cmd, c, f, args[0]) },
	}
	f.as = choiceFlag(cmd, "output", "form of the output; prototext is for programs", "table", "json", "prototext")
	cmd.Flags().StringVar(&f.svg, "svg", "", "draw the program to this `FILE`; - is standard output")
	cmd.Flags().BoolVar(&f.full, "full", false, "do not shorten long lists and texts of a program")
	cmd.Flags().BoolVar(&f.support, "support", false, "say which ops of the program run, and what does not run and why")
	cmd.Flags().BoolVar(&f.plan, "plan", false, "show how this machine would run the program: each step with its shapes, arithmetic, memory and time")
	cmd.Flags().Int64Var(&f.rows, "rows", 0, "with --plan: a batch of `N` rows (default: as the program reads)")
	cmd.Flags().IntVar(&f.workers, "workers", runtime.GOMAXPROCS(0), "with --plan: run the ops of a step on `N` goroutines")
	cmd.Flags().StringVar(&f.values, "values", "", "show the elements of the variable `NAME` of a model, of a directory of --save, or of a checkpoint, and how they are distributed")
	f.startup.add(cmd)
	cmd.AddCommand(newShowOps(c))
	return cmd
}

func showFile(cmd *cobra.Command, c *console, f *showFlags, path string) error {
	ctx := cmd.Context()
	if err := f.refuseIdle(cmd.Flags()); err != nil {
		return err
	}
	if f.values != "" {
		return showValues(ctx, c, path, f.values, f.as.value)
	}
	if bucket.IsURL(path) {
		dir, found, done, err := fetchModel(ctx, path)
		if err == nil && found {
			defer done()
			path = dir
		}
	}
	if checkpoint.IsAddress(path) {
		return showAddress(cmd, c, f, path)
	}
	kind, err := kindOf(path)
	if err != nil {
		return err
	}
	switch model := onnxOf(path); {
	case model != "":
		m, err := readONNX(model)
		if err != nil {
			return err
		}
		return showProgram(ctx, c, f, m.Program)
	case schema.IsTable(path) && kind == unknownFile:
		return fault.E(fault.InvalidArgument, fault.At(path), fault.Got("a table"), fault.Want(wantedKinds), fault.Hintf("\"edl data show %s\" shows its columns", path))
	case kind == unknownFile:
		return fault.E(fault.InvalidArgument, fault.At(path), fault.Got(kind.String()), fault.Want(wantedKinds))
	}
	if kind != programFile {
		if err := refuseIdle(cmd.Flags(), []string{"full"}, "a file that holds no program", "a program"); err != nil {
			return err
		}
	}
	if kind != programFile && f.startup.path != "" {
		return fault.E(fault.InvalidArgument, fault.At("--startup"), fault.Got("a file that holds no program"), fault.Want("a program"))
	}
	if kind != programFile && (f.svg != "" || f.plan || f.support || f.as.value == "prototext") {
		return fault.E(fault.InvalidArgument, fault.At(path), fault.Got("a file that holds no program"),
			fault.Want("a program for --svg, --plan, --support and --output prototext"))
	}
	switch kind {
	case tensorFile:
		return showTensors(c, path, f.as.value)
	case namedFile:
		return showNamed(ctx, c, path, f.as.value)
	case recordFile:
		return showRecords(ctx, c, path, f.as.value)
	case jobFile:
		return showJob(c, path, f.as.value)
	case queueFile:
		return showQueues(c, path, f.as.value)
	case progressFile:
		return showProgress(c, path, f.as.value)
	case directory:
		return showDirectory(ctx, c, path, f.as.value)
	}
	p, _, err := loadProgram(path)
	if err != nil {
		return err
	}
	if err := f.startup.give(p); err != nil {
		return err
	}
	return showProgram(ctx, c, f, p)
}

// showAddress shows a checkpoint.
func showAddress(cmd *cobra.Command, c *console, f *showFlags, address string) error {
	if err := refuseIdle(cmd.Flags(), []string{"full", "svg", "plan", "support", "startup"}, "a checkpoint, which holds no program", "a program"); err != nil {
		return err
	}
	if f.as.value == "prototext" {
		return fault.E(fault.InvalidArgument, fault.At(address), fault.Got("a checkpoint, which holds no program"), fault.Want("a program for --output prototext"))
	}
	return withCheckpoint(cmd.Context(), address, func(k *checkpoint.Checkpoint) error { return showCheckpoint(c, k, f.as.value) })
}

// refuseIdle refuses flags that are for another form of the output than what is asked for.
func (f *showFlags) refuseIdle(flags *pflag.FlagSet) error {
	switch {
	case f.values != "":
		if f.as.value == "prototext" {
			return fault.E(fault.InvalidArgument, fault.At("--output"), fault.Got("prototext with --values"), fault.Want("table or json"))
		}
		return refuseIdle(flags, []string{"svg", "plan", "support", "rows", "workers", "full", "startup"}, "the values of a variable", "no --values")
	case f.svg != "":
		return refuseIdle(flags, []string{"plan", "support", "rows", "workers", "full", "output"}, "a picture of the program", "no --svg")
	case f.plan:
		return refuseIdle(flags, []string{"full", "support", "output"}, "a plan, which is a table of all steps", "no --plan")
	case f.support && f.as.value == "prototext":
		return fault.E(fault.InvalidArgument, fault.At("--output"), fault.Got("prototext with --support"), fault.Want("table or json"))
	case f.support:
		return refuseIdle(flags, []string{"full", "rows", "workers"}, "a list of what is supported", "no --support")
	case f.as.value != "table":
		if err := refuseIdle(flags, []string{"full"}, "a form of the program that shortens nothing", "--output table"); err != nil {
			return err
		}
	}
	return refuseIdle(flags, []string{"rows", "workers"}, "no plan to show", "it together with --plan")
}

// humanBytes writes a size for people.
func humanBytes(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d B", n)
	case n < 10<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 10<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// showProgram writes a program in the form that is asked for. It need not be one that would run.
func showProgram(ctx context.Context, c *console, f *showFlags, p *program.Program) error {
	if f.svg != "" {
		return drawProgram(ctx, c, p, f.svg)
	}
	if f.plan {
		return showPlan(ctx, c, f, p)
	}
	if f.support {
		return showSupport(c, f, p)
	}
	switch f.as.value {
	case "json":
		return p.JSON(c.out)
	case "prototext":
		text, err := p.ProtoText()
		if err != nil {
			return err
		}
		_, err = c.out.Write(text)
		return err
	}
	return p.Text(c.out, program.TextOptions{Full: f.full})
}

func drawProgram(ctx context.Context, c *console, p *program.Program, path string) error {
	svg, err := draw.SVG(ctx, p)
	if err != nil {
		return err
	}
	if path == "-" {
		_, err = c.out.Write(svg)
		return err
	}
	return fileFault(path, os.WriteFile(path, svg, 0o666))
}

// planSteps is how many steps a plan runs before its times are shown: enough for memory and caches to be warm.
const planSteps = 10

// showPlan prints how this machine would run a program: each step with shapes, arithmetic, memory, and the time that it takes on zeros.
func showPlan(ctx context.Context, c *console, f *showFlags, p *program.Program) error {
	rows := f.rows
	switch {
	case rows < 0:
		return tooFew("--rows", rows)
	case f.workers < 1:
		return tooFew("--workers", int64(f.workers))
	case rows == 0:
		rows = batchOf(p)
	}
	return executor.DescribePlan(ctx, c.out, p, rows, planSteps, executor.WithWorkers(f.workers), executor.WithoutFiniteCheck())
}

// batchOf is the batch size that a program reads, 1 for one that is fed.
func batchOf(p *program.Program) int64 {
	read, err := executor.ReadOp(p)
	if err != nil {
		return 1
	}
	pipeline, err := reader.PipelineOf(p.Global(), read)
	if err != nil {
		return 1
	}
	return int64(pipeline.Batch)
}

// showJob shows a job file with its defaults.
func showJob(c *console, path, output string) error {
	file, err := jobspec.Load(path)
	if err != nil {
		if _, other := schema.Load(path); other == nil {
			return fault.E(fault.InvalidArgument, fault.At(path), fault.Got("a schema of tables"), fault.Want(wantedKinds),
				fault.Hintf("a schema is a text to read and to change; \"edl data table TABLE --schema %s -o DIR\" makes records by it", path))
		}
		return err
	}
	spec := file.Spec
	if spec.Trainers == 0 {
		spec.Trainers = defaultServers
	}
	if spec.Pservers == 0 {
		spec.Pservers = defaultServers
	}
	jobspec.Complete(spec)
	if err := jobspec.Check(spec); err != nil {
		return inFile(path, err)
	}
	if output == "json" {
		b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(spec)
		if err != nil {
			return err
		}
		return writeJSON(c.out, struct {
			Program string  `json:"program"`
			Job     rawJSON `json:"job"`
		}{file.Program, b})
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	row := func(name string, value any) { fmt.Fprintf(t, "%s\t%v\n", name, value) }
	row("program", file.Program)
	for _, d := range spec.Data {
		row("data", d.Dataset+" = "+strings.Join(d.Globs, ", "))
	}
	row("trainers", fmt.Sprintf("%d to %d", spec.Trainers, spec.TrainersMax))
	pservers := fmt.Sprint(spec.Pservers)
	if spec.PserversMax > 0 {
		pservers += fmt.Sprintf(", from %d to %d", spec.PserversMin, spec.PserversMax)
	}
	row("pservers", pservers)
	row("mode", modeName(spec))
	row("passes", spec.Passes)
	row("params", spec.Params)
	row("save", spec.Save)
	row("fetch", strings.Join(spec.Fetch, ", "))
	row("deadlines", fmt.Sprintf("start %v, round %v, lease %v", spec.StartDeadline.AsDuration().Round(time.Millisecond),
		spec.RoundDeadline.AsDuration(), spec.Lease.AsDuration()))
	return t.Flush()
}

// rawJSON is text that is JSON already, without the white space that protojson varies at random.
type rawJSON []byte

// MarshalJSON implements json.Marshaler; the encoder that calls it compacts the result.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }
