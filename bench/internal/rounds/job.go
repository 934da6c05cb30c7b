// Package rounds measures the rounds of jobs on a cluster of this machine, and copies of bytes over the same loopback for comparison.
//
// A job takes the way of `edl run --remote`: a listener with its etcd in this process, the coordinator, pservers and trainers as child processes, and a
// follower that is told every step. A round begins and ends with the report of a step, so it contains reading, computing, sending, merging, updating,
// receiving and reporting.
//
// Files: job.go measures one job, windows.go its rounds, procfs.go what its processes use; copy.go copies bytes.
package rounds

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/bench"
	"github.com/edl-go/edl/bench/internal/measure"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/launch"
)

// A Job is a job to measure. It travels to the process that measures it as JSON.
type Job struct {
	Workload   string  `json:"workload"` // of package bench. Its batch is that of all trainers together
	Trainers   int32   `json:"trainers"`
	Pservers   int32   `json:"pservers"`
	Async      bool    `json:"async,omitempty"`      // a step is a batch of one trainer
	Goroutines bool    `json:"goroutines,omitempty"` // roles are goroutines of the process that measures, and their store is in memory
	Transport  string  `json:"transport,omitempty"`  // JobSpec.transport; empty: not set
	MergeHosts bool    `json:"merge_hosts,omitempty"`
	NoSlice    bool    `json:"no_slice,omitempty"`
	Compress   string  `json:"compress,omitempty"`  // JobSpec.compress_gradients and compress_parameters; topk is for gradients only; empty: not set
	MinBlock   int64   `json:"min_block,omitempty"` // elements of the smallest slice; 0: the default
	Lease      float64 `json:"lease,omitempty"`     // seconds; 0: the default
	Seconds    float64 `json:"seconds,omitempty"`   // length of the measurement after the warm-up
	Memory     int64   `json:"memory,omitempty"`    // bytes that all processes may have resident; 0: no bound

	// A job with passes is not measured by its rounds: it runs to its end over so many records.
	Passes  int   `json:"passes,omitempty"`
	Records int64 `json:"records,omitempty"`
}

// A Result is what the rounds of a job took. The embedded result is that of a round; its memory is the sum of the peaks of all processes.
type Result struct {
	measure.Result
	Steps    uint64  `json:"steps"`             // in the windows, or of the whole job
	CPU      float64 `json:"cpu_us"`            // processor time of a round over all processes, in microseconds
	Switches float64 `json:"switches"`          // context switches of a round over all processes
	Mallocs  float64 `json:"mallocs,omitempty"` // heap allocations of a round over all roles; 0 unless the roles are goroutines
	Seconds  float64 `json:"seconds"`           // from the start of the cluster to the end of the measurement or of the job
	Restarts int32   `json:"restarts"`          // roles that were started again
}

// roundDeadline is long enough for rounds of large parameters on a busy machine.
const roundDeadline = 10 * time.Minute

// Size of the dataset of a job without passes.
const (
	roundsOfPass = 1024     // at most
	dataBytes    = 64 << 20 // at most, but 16 batches in any case
)

// errMeasured ends a job that has been measured.
var errMeasured = errors.New("measured")

// errMemory ends a job whose processes take too much memory.
var errMemory = fault.New(fault.TooLarge, "the processes of the job take more memory than the bench allows")

// Run measures a job. role is the command line of this program that runs remote.RunChild. data is a directory for record files, which later
// measurements of the same workload find again.
func Run(ctx context.Context, j Job, role []string, data string) (result Result, err error) {
	reading, err := bench.NewReading(j.Workload)
	if err != nil {
		return Result{}, err
	}
	files, err := j.records(reading, data)
	if err != nil {
		return Result{}, err
	}
	spec, err := j.spec()
	if err != nil {
		return Result{}, err
	}
	var options []remote.Option
	if !j.Goroutines {
		options = append(options, remote.WithLauncher(launch.Processes{Binary: role[0], Args: role[1:]}))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := meter{windows: NewWindows(time.Duration(j.Seconds * float64(time.Second))), begin: time.Now()}
	e, err := remote.NewExecutor("", spec, options...)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if j.Memory > 0 {
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			watchMemory(ctx, j.Memory, cancel)
		}()
		defer func() {
			cancel(nil)
			<-watched
		}()
	}
	run := executor.TrainOptions{Data: files, Passes: max(j.Passes, 1), Fetch: []string{reading.Fetch}, Ahead: -1}
	if j.Passes == 0 {
		run.Passes = manyPasses
	}
	running, err := e.Submit(ctx, reading.Program, run)
	if err != nil {
		return Result{}, err
	}
	var each func(executor.StepResult) error
	if j.Passes == 0 {
		each = func(executor.StepResult) error { return m.step() }
	}
	summary, err := running.Follow(ctx, each)
	if cause := context.Cause(ctx); cause != nil {
		return Result{}, cause
	}
	switch {
	case j.Passes > 0 && err == nil:
		result = m.ended(summary)
	case errors.Is(err, errMeasured):
		result, err = m.result(), nil
	case err == nil:
		err = fault.E(fault.InvalidArgument, fault.At("job "+j.Workload), fault.Gotf("the end of its data after %d steps", summary.Steps),
			fault.Want("a shorter measurement"))
	}
	if err != nil {
		return Result{}, err
	}
	status, err := e.Client().Status(ctx, running.ID)
	if err != nil {
		return Result{}, err
	}
	for _, r := range status.Roles {
		result.Restarts += max(0, r.Starts-1)
	}
	return result, nil
}

// manyPasses is more than a measurement takes.
const manyPasses = 1 << 20

// spec is the JobSpec of a job.
func (j Job) spec() (*remote.JobSpec, error) {
	spec := &remote.JobSpec{Trainers: j.Trainers, Pservers: j.Pservers, NoSlice: j.NoSlice, MinBlockSize: j.MinBlock,
		RoundDeadline: durationpb.New(roundDeadline), MergeHosts: j.MergeHosts, CompressGradients: j.Compress}
	if !strings.HasPrefix(j.Compress, "topk:") {
		spec.CompressParameters = j.Compress
	}
	if j.Async {
		spec.Mode = job.Mode_ASYNC
	}
	if j.Lease > 0 {
		spec.Lease = durationpb.New(time.Duration(j.Lease * float64(time.Second)))
	}
	return spec, setTransport(spec.ProtoReflect(), j.Transport)
}

// KnowsTransport reports whether jobs can have a transport; the empty one is the default of the product.
func KnowsTransport(name string) bool {
	return setTransport((&remote.JobSpec{}).ProtoReflect(), name) == nil
}

// setTransport sets the field transport of a JobSpec, which is a text or an enumeration.
func setTransport(spec protoreflect.Message, transport string) error {
	if transport == "" {
		return nil
	}
	wrong := func(got string) error {
		return fault.E(fault.Unsupported, fault.At("transport "+transport), fault.Got(got), fault.Want("a transport that this build knows"))
	}
	field := spec.Descriptor().Fields().ByName("transport")
	if field == nil {
		return wrong("a JobSpec without the field transport")
	}
	switch field.Kind() {
	case protoreflect.StringKind:
		spec.Set(field, protoreflect.ValueOfString(transport))
		return nil
	case protoreflect.EnumKind:
		values := field.Enum().Values()
		for i := range values.Len() {
			name := strings.ToLower(string(values.Get(i).Name()))
			if name == transport || strings.HasSuffix(name, "_"+transport) {
				spec.Set(field, protoreflect.ValueOfEnum(values.Get(i).Number()))
				return nil
			}
		}
	}
	return wrong("a value that the field transport does not have")
}

// records writes the records of a job, unless they are there: the folder is named by all that makes them, the workload and their number.
func (j Job) records(reading *bench.Reading, dir string) (map[string][]string, error) {
	n := j.Records
	if n == 0 {
		size := int64(reading.RecordBytes())
		turn := reading.Rows * int64(reading.Batches())
		n = max(1, min(roundsOfPass*reading.Rows, dataBytes/size)/turn) * turn
	}
	dir = filepath.Join(dir, fmt.Sprintf("%s_%d", strings.NewReplacer("/", "_", ":", "_").Replace(j.Workload), n))
	if found, err := filepath.Glob(filepath.Join(dir, bench.Dataset+"-*")); err == nil && len(found) > 0 {
		return map[string][]string{bench.Dataset: found}, nil
	}
	return reading.Write(dir, n)
}

// A meter measures the rounds of a job from its callback.
type meter struct {
	windows       *Windows
	begin         time.Time
	before, after reading
}

// A reading is the state of all counters at a moment.
type reading struct {
	Usage
	mallocs uint64
	at      time.Time
}

func (m *meter) read(r *reading) (err error) {
	r.Usage, err = UsageOf("/proc", os.Getpid())
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	r.mallocs, r.at = memory.Mallocs, time.Now()
	return err
}

func (m *meter) step() error {
	switch m.windows.Step(time.Since(m.begin)) {
	case Beginning:
		return m.read(&m.before)
	case Done:
		if err := m.read(&m.after); err != nil {
			return err
		}
		return errMeasured
	}
	return nil
}

func (m *meter) result() Result {
	r := Result{Result: m.windows.Result(), Steps: m.windows.Steps(), Seconds: m.after.at.Sub(m.begin).Seconds()}
	r.counters(&m.before, &m.after)
	return r
}

// counters sets what the steps of r have used between two readings.
func (r *Result) counters(before, after *reading) {
	steps := float64(max(r.Steps, 1))
	r.PeakMemory = after.Peak
	r.CPU = float64((after.CPU - before.CPU).Microseconds()) / steps
	r.Switches = float64(after.Switches-before.Switches) / steps
	if after.Processes == 1 {
		r.Mallocs = float64(after.mallocs-before.mallocs) / steps
	}
}

// ended is the result of a job that ran to its end: a round takes its share of the whole. Its processor time is that of this process and its children,
// which the parent of this process knows.
func (m *meter) ended(summary executor.Summary) Result {
	r := Result{Seconds: time.Since(m.begin).Seconds(), Steps: summary.Steps}
	r.Median = 1e6 * r.Seconds / float64(max(r.Steps, 1))
	r.Fastest, r.Windows = r.Median, 1
	return r
}

// memoryPause is the time between two looks at the memory of a job.
const memoryPause = 2 * time.Second

// watchMemory cancels a job when its processes take more than so many bytes. It returns when ctx ends.
func watchMemory(ctx context.Context, most int64, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(memoryPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if u, err := UsageOf("/proc", os.Getpid()); err == nil && u.Resident > most {
			cancel(errMemory)
		}
	}
}
