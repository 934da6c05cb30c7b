package edlcmd

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
	"github.com/spf13/cobra"
)

// verifyFlags are the flags of "edl verify".
type verifyFlags struct {
	jobFlags
	startup startupFlag
	batch   batchFlag
	tables  tableData
	steps   int
	all     bool
	output  *choice
}

func newVerify(c *console) *cobra.Command {
	f := &verifyFlags{}
	cmd := &cobra.Command{
		Use:   "verify [PROGRAM]",
		Short: "Train a program on a cluster and with the reference executor, and compare the parameters",
		Long: `Train a program twice on the same data: by a cluster of processes on this machine, and by the reference executor. The
reference executor runs in one process: it divides each batch among the trainers, and sums in the order of their ranks. Print the largest difference of
each saved variable that differs. In sync mode any difference at all is a failure, with exit code 3; in async mode
differences are to be expected, and it says why.`,
		Example: "  edl verify program.pb --data train='data/train-*' --trainers 2 --pservers 2 --steps 20",
		Args:    cobra.MaximumNArgs(1),
	}
	f.addTraining(cmd)
	f.addCluster(cmd)
	f.addSupervision(cmd)
	f.startup.add(cmd)
	f.batch.add(cmd)
	f.tables.add(cmd)
	cmd.Flags().IntVar(&f.steps, "steps", 0, "train on the first `N` batches only")
	cmd.Flags().BoolVar(&f.all, "all", false, "also list the variables that do not differ")
	f.output = outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return verifyProgram(cmd, c, f, args) }
	return cmd
}

func verifyProgram(cmd *cobra.Command, c *console, f *verifyFlags, args []string) (err error) {
	if f.output.value == "json" {
		if err := refuseIdle(cmd.Flags(), []string{"all"}, "JSON, which lists all variables", "--output table"); err != nil {
			return err
		}
	}
	spec, path, err := f.spec(cmd, args)
	if err != nil {
		return err
	}
	if spec.BackupTrainers > 0 {
		return fault.E(fault.InvalidArgument, fault.At("--backup-trainers"), fault.Got(fmt.Sprint(spec.BackupTrainers)),
			fault.Want("0: which contributions count depends on who is late, so another run computes something else"))
	}
	if spec.Resume != "" {
		return fault.E(fault.InvalidArgument, fault.At("--resume"), fault.Got(spec.Resume), fault.Want("a run from its first step, where the reference begins, too"),
			fault.Hint("to compare where two runs have come to, use edl checkpoint diff"))
	}
	if spec.DayRounds == 0 {
		spec.DayRounds = 24 // an hour for each round: the clock is another one when the second run trains
	}
	p, _, err := loadWhole(path)
	if err != nil {
		return err
	}
	if err := f.startup.give(p); err != nil {
		return err
	}
	if err := f.batch.give(cmd.Flags(), spec, p); err != nil {
		return err
	}
	if err := f.tables.give(cmd.Context(), c, spec.Data, &evalFlags{}, path, p, nil); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "edl-verify-")
	if err != nil {
		return fileFault(os.TempDir(), err)
	}
	defer os.RemoveAll(dir)
	run := executor.TrainOptions{Data: bindings(spec), Passes: int(spec.Passes)}
	if f.steps < 0 {
		return fault.E(fault.InvalidArgument, fault.At("--steps"), fault.Got(fmt.Sprint(f.steps)), fault.Want("1 or more"))
	}
	if f.steps > 0 {
		if err := refuseIdle(cmd.Flags(), []string{"passes"}, "the first batches only, which are read once", "no --steps"); err != nil {
			return err
		}
		for _, d := range spec.Data {
			d.Follow = false // what is copied does not grow
		}
		if run, err = firstBatches(cmd.Context(), p, run, f.steps, filepath.Join(dir, "data")); err != nil {
			return err
		}
	}
	differences, summary, err := trainTwice(cmd.Context(), place{remote: true, binary: c.binary}, spec, p, run, dir)
	if err != nil {
		return err
	}
	return reportDifferences(c, f, spec, summary, differences, asyncReasons(spec, p))
}

// trainTwice trains p by the reference and by a cluster, and compares what both saved.
func trainTwice(ctx context.Context, cluster place, spec *job.JobSpec, p *program.Program, run executor.TrainOptions,
	dir string) ([]difference, executor.Summary, error) {
	expected, actual := filepath.Join(dir, "reference"), filepath.Join(dir, "cluster")
	run.Save = expected
	if _, err := trainReference(ctx, spec, p, run); err != nil {
		return nil, executor.Summary{}, err
	}
	run.Save = actual
	summary, err := runTrain(ctx, cluster, spec, p, run, nil)
	if err != nil {
		return nil, summary, err
	}
	differences, err := compareSaved(p, expected, actual)
	return differences, summary, err
}

// trainReference computes what the job must compute. In async mode there is no such thing; one machine stands for it.
func trainReference(ctx context.Context, spec *job.JobSpec, p *program.Program, run executor.TrainOptions) (s executor.Summary, err error) {
	trainers := int(spec.Trainers)
	if spec.Mode == job.Mode_ASYNC {
		trainers = 1
	}
	run.Params = spec.Params
	cut, err := transpiler.Transpile(ctx, p, jobspec.Transpiler(spec)) // what a cluster refuses is refused before anything trains
	if err != nil {
		return s, err
	}
	e, err := reference.New(p, trainers, localOptions(spec)...)
	if err != nil {
		return s, err
	}
	defer closeExecutor(e, &err)
	if err := e.Compress(spec.CompressGradients, spec.CompressParameters); err != nil {
		return s, err
	}
	if form, err := compress.ParseGradients(spec.CompressGradients); err == nil && form.Selects() { // from each slice by itself
		e.Slice(cut.Placement.Rows)
	}
	e.Devices(func(uint64) int { return int(spec.Devices) })
	e.Rhythm(int(spec.PushEvery), int(spec.PullEvery))
	if spec.MergeHosts { // the cluster is on this machine: all trainers are one group
		all := make([]int, trainers)
		for i := range all {
			all[i] = i
		}
		e.Group(func(uint64) [][]int { return [][]int{all} })
	}
	return e.Train(ctx, p, run, nil)
}

// A verifyReport is what "edl verify --output json" prints.
type verifyReport struct {
	Mode        string       `json:"mode"`
	Compression string       `json:"compression,omitempty"`
	Trainers    int32        `json:"trainers"`
	PServers    int32        `json:"pservers"`
	Steps       uint64       `json:"steps"`
	Equal       bool         `json:"equal"` // bit for bit
	Variables   []difference `json:"variables"`
	Reasons     []string     `json:"reasons,omitempty"` // async: why other bits are to be expected, where they are others
}

// asyncReasons says why an async job computes something else than the reference: one process that reads all records in the order of the program.
func asyncReasons(spec *job.JobSpec, p *program.Program) (list []string) {
	if spec.Mode != job.Mode_ASYNC {
		return nil
	}
	if read, err := executor.ReadOp(p); err == nil {
		if pipeline, err := reader.PipelineOf(p.Global(), read); err == nil && pipeline.ShuffleBuffer > 1 {
			list = append(list, fmt.Sprintf("the program shuffles %d records at a time, and async trainers shuffle within each task: batches have other records than those of the reference",
				pipeline.ShuffleBuffer))
		}
	}
	if spec.Trainers > 1 || spec.TrainersMax > 1 {
		list = append(list, fmt.Sprintf("%s update parameters one after the other, in the order in which they come", count(int(max(spec.Trainers, spec.TrainersMax)), "trainer")))
	}
	return list
}

func reportDifferences(c *console, f *verifyFlags, spec *job.JobSpec, s executor.Summary, differences []difference, reasons []string) error {
	r := verifyReport{modeName(spec), compression(spec), spec.Trainers, spec.Pservers, s.Steps, true, differences, nil}
	worst := difference{}
	for _, d := range differences {
		if d.Differing > 0 {
			r.Equal = false
		}
		if d.Differing > 0 && (worst.Name == "" || d.Largest > worst.Largest) {
			worst = d
		}
	}
	if !r.Equal {
		r.Reasons = reasons
	}
	if err := writeVerifyReport(c, f, r); err != nil {
		return err
	}
	if r.Equal || spec.Mode == job.Mode_ASYNC {
		return nil
	}
	return fault.E(fault.VerifyFailed, fault.Var(worst.Name),
		fault.Gotf("%d of %d elements different from the reference, by up to %g", worst.Differing, worst.Elements, float64(worst.Largest)),
		fault.Want("equal bits"))
}

func writeVerifyReport(c *console, f *verifyFlags, r verifyReport) error {
	if f.output.value == "json" {
		return writeJSON(c.out, r)
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	if f.all || !r.Equal {
		fmt.Fprintln(t, "VARIABLE\tELEMENTS\tDIFFERENT\tLARGEST DIFFERENCE")
	}
	different := 0
	for _, d := range r.Variables {
		if d.Differing > 0 {
			different++
		}
		if f.all || d.Differing > 0 {
			fmt.Fprintf(t, "%s\t%d\t%d\t%g\n", d.Name, d.Elements, d.Differing, float64(d.Largest))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	verdict, of := "bitwise equal", count(len(r.Variables), "variable")
	if !r.Equal {
		verdict, of = "different", fmt.Sprintf("%d of %s", different, of)
	}
	line := []string{of, r.Mode, count(int(r.Trainers), "trainer"), count(int(r.PServers), "pserver")}
	if r.Compression != "" {
		line = append(line, "compressed: "+r.Compression)
	}
	fmt.Fprintf(c.out, "%s after %s: %s\n", verdict, count(int(r.Steps), "step"), strings.Join(line, ", "))
	for _, reason := range r.Reasons {
		fmt.Fprintln(c.out, "as is to be expected in async mode: "+reason)
	}
	return nil
}

// verifyChunks is into how many chunks the records of a shortened run are cut, so that there is work to divide.
const verifyChunks = 16

// firstBatches copies the records of the first batches that run reads to dir, and returns the run that reads those, once.
func firstBatches(ctx context.Context, p *program.Program, run executor.TrainOptions, steps int, dir string) (executor.TrainOptions, error) {
	read, err := executor.ReadOp(p)
	if err != nil {
		return run, err
	}
	pipeline, err := reader.PipelineOf(p.Global(), read)
	if err != nil {
		return run, err
	}
	if steps > math.MaxInt32 {
		return run, fault.E(fault.InvalidArgument, fault.At("--steps"), fault.Got(fmt.Sprint(steps)), fault.Want("fewer"))
	}
	source, err := executor.OpenFiles(ctx, p, run.Data, 1)
	if err != nil {
		return run, err
	}
	defer source.Close()
	name, records := source.Dataset()
	wanted := min(int64(steps)*int64(pipeline.Batch), records.NumRecords())
	w, err := dataset.CreateShards(dir, "train", 1, recordio.Options{ChunkRecords: int(max(1, wanted/verifyChunks))})
	if err != nil {
		return run, err
	}
	defer w.Abort()
	for record, err := range records.Records(ctx, 0, wanted) {
		if err != nil {
			return run, err
		}
		if err := w.Write(record.Bytes); err != nil {
			return run, err
		}
	}
	run.Data, run.Passes = map[string][]string{name: {filepath.Join(dir, "train-*")}}, 1
	return run, w.Close()
}

// A difference compares two values of one variable.
type difference struct {
	Name      string     `json:"name"`
	Elements  int        `json:"elements"`
	Differing int        `json:"differing"` // elements with other bits
	Largest   jsonNumber `json:"largest"`   // absolute difference; infinite where one of two elements is not a number
}

// compareSaved compares every persistable variable of p as two runs saved it.
func compareSaved(p *program.Program, expected, actual string) ([]difference, error) {
	a, b := executor.NewScope(), executor.NewScope()
	if err := executor.LoadPersistables(a, expected, p); err != nil {
		return nil, err
	}
	if err := executor.LoadPersistables(b, actual, p); err != nil {
		return nil, err
	}
	var all []difference
	for _, name := range executor.Persistables(p) {
		x, _ := a.Find(name)
		y, _ := b.Find(name)
		all = append(all, compare(name, x, y))
	}
	return all, nil
}

// compare compares two tensors of one dtype and dims.
func compare(name string, x, y *tensor.Tensor) difference {
	d := difference{Name: name, Elements: x.Len()}
	a, noBytes := wire.Memory(x)
	b, _ := wire.Memory(y)
	size := x.DType().Size()
	inX, inY := tensor.UsageOf(a), tensor.UsageOf(b)
	for from := 0; from < x.Len(); from += comparedTogether {
		to := min(from+comparedTogether, x.Len())
		if unused := inX.Unused(from*size, to*size) && inY.Unused(from*size, to*size); noBytes == nil && (unused || bytes.Equal(a[from*size:to*size], b[from*size:to*size])) {
			continue
		}
		for i := from; i < to; i++ {
			if !sameBits(x, y, i) {
				d.add(float(x, i), float(y, i))
			}
		}
	}
	return d
}

// comparedTogether is how many elements are compared at once, where they are. Most are equal, and a table with room for many rows should take no memory for a copy.
const comparedTogether = 1 << 13

// add counts an element that is a in one tensor and b in the other.
func (d *difference) add(a, b float64) {
	d.Differing++
	distance := math.Abs(a - b)
	if math.IsNaN(distance) {
		distance = math.Inf(1)
	}
	d.Largest = max(d.Largest, jsonNumber(distance))
}

func sameBits(x, y *tensor.Tensor, i int) bool {
	if x.DType() == tensor.Int64 {
		return x.Int64s()[i] == y.Int64s()[i]
	}
	return math.Float64bits(float(x, i)) == math.Float64bits(float(y, i))
}

// modeName is the mode of a job as flags have it.
func modeName(spec *job.JobSpec) string { return strings.ToLower(spec.Mode.String()) }

// compression says what a job compresses; it is empty for a job that compresses nothing.
func compression(spec *job.JobSpec) string {
	var all []string
	if form, _ := compress.ParseGradients(spec.GetCompressGradients()); form != compress.None {
		all = append(all, "gradients "+form.String())
	}
	if form, _ := compress.ParseParameters(spec.GetCompressParameters()); form != compress.None {
		all = append(all, "parameters "+form.String())
	}
	return strings.Join(all, ", ")
}
