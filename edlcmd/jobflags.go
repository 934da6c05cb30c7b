package edlcmd

import (
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/durationpb"
)

// jobFlags are the flags of a job. Commands that share them read one JobSpec from them: the job file given with -f, with the fields that
// flags set replaced.
type jobFlags struct {
	file      string
	data      []string
	passes    int32
	dayRounds int64
	save      string
	overwrite bool
	params    string
	fetch     []string
	workers   int32
	alone     bool // the run has this machine's cores for itself
	noFinite  bool
	follow    []string
	restarts  int32
	failures  int32
	trainers  string
	pservers  string
	mode      *choice
	minBlock  int64
	noSlice   bool
	split     *choice
	carrier   *choice
	devices   int32
	hosts     bool
	push      int32
	pull      int32
	staleness int32
	standby   int32
	backups   int32
	saved     string // where checkpoints go
	every     string
	keep      int32
	resume    string
	name      string
	labels    []string
	namespace string
	priority  int32
	needs     [2]needsFlags // of trainers and of pservers
	maxTime   time.Duration

	compressGradients  string // checked with the other fields of a JobSpec
	compressParameters *choice
}

// addTraining adds the flags that say what a run reads, and how it trains.
func (f *jobFlags) addTraining(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.data, "data", nil, "record files of a dataset of the program, as `NAME=GLOB`; repeatable")
	flags.Int32Var(&f.passes, "passes", 0, "read the dataset `N` times (default: as the program says)")
	flags.StringVar(&f.params, "params", "", "start from the parameters at `PATH`: a directory, one file that holds all, or a URL such as s3://bucket/folder")
	flags.Int32Var(&f.workers, "workers", 0, "run the ops of a step on `N` goroutines (default: every core for a run without --remote, else 1)")
	flags.Int64Var(&f.dayRounds, "day-rounds", 0, "let a day take `N` rounds, for tables that evict by days (default: the clock says the day)")
	flags.BoolVar(&f.noFinite, "no-finite-check", false, "go on when the loss is NaN or infinite")
}

// defaultServers is how many trainers, and how many pservers, a job of the command has if nothing says how many.
const defaultServers = 2

// addCluster adds the flags that say how a program is spread over machines.
func (f *jobFlags) addCluster(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "job `FILE` (job.yaml); flags override its fields")
	flags.StringVar(&f.trainers, "trainers", strconv.Itoa(defaultServers), "start `N[:MAX]` trainers; with MAX the job is elastic")
	flags.StringVar(&f.pservers, "pservers", strconv.Itoa(defaultServers), "start `N[:MAX]` parameter servers; edl scale keeps to MAX")
	f.mode = choiceFlag(cmd, "mode", "when servers apply gradients", "sync", "async")
	flags.Int64Var(&f.minBlock, "min-block-size", 8192, "cut parameters into slices of at least `N` elements")
	flags.BoolVar(&f.noSlice, "no-slice", false, "keep every parameter whole on one server")
	f.carrier = choiceFlag(cmd, "transport", "how gradients and parameters travel", jobspec.Transports()...)
	flags.StringVar(&f.compressGradients, "compress-gradients", "none",
		"how float32 gradients travel to servers, as `FORM`: none, bf16, fp16, topk:FRACTION or topk:FRACTION:LEAST")
	_ = cmd.RegisterFlagCompletionFunc("compress-gradients",
		cobra.FixedCompletions([]string{"none", "bf16", "fp16", "topk:0.01"}, cobra.ShellCompDirectiveNoFileComp))
	f.compressParameters = choiceFlag(cmd, "compress-parameters", "how float32 parameters travel to trainers", "none", "bf16", "fp16")
	flags.Int32Var(&f.devices, "devices", 1, "let `N` devices of each trainer share its rows of a batch")
	flags.BoolVar(&f.hosts, "merge-hosts", false, "let the trainers of one host merge their contributions before they send them to servers")
	flags.Int32Var(&f.push, "push-every", 1, "in async mode, add up the gradients of `N` steps before they are sent to servers")
	flags.Int32Var(&f.staleness, "staleness", 0, "in async mode, a trainer waits that is more than `K` pushes ahead of another one; without it none waits")
	flags.Int32Var(&f.pull, "pull-every", 1, "in async mode, receive parameters after every `N` steps")
	flags.Int32Var(&f.standby, "standby", 0, "`1` runs a standby of each server, which takes its place when it is lost")
	flags.Int32Var(&f.backups, "backup-trainers", 0, "in sync mode: a round counts without the `B` trainers that are late; their records are trained later")
	f.split = choiceFlag(cmd, "split-method", "how slices are dealt to servers", "round_robin", "hash_name")
}

// addSupervision adds the flags that say what a job does about failures.
func (f *jobFlags) addSupervision(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Int32Var(&f.restarts, "max-restarts", 10, "start a role again up to `N` times; -1: never")
	flags.StringVar(&f.saved, "checkpoint", "", "save the state to `STORE` while training: a folder, or a URL such as s3://bucket/folder; none: not at all")
	flags.StringVar(&f.every, "checkpoint-every", "5m", "with --checkpoint: `WHEN` one is made: after so much time (5m, 1h30m), after so many rounds (1000r), or at the end of each pass (pass)")
	flags.Int32Var(&f.keep, "keep", 2, "with --checkpoint: keep the newest `N`")
	flags.StringVar(&f.resume, "resume", "", "go on from the checkpoint `STORE[@STEPS]`; any number of trainers and pservers will do")
	flags.Int32Var(&f.failures, "max-task-failures", 3, "discard a task that fails more than `N` times: leave out its records")
}

// addResults adds the flags that say what a run reports and leaves, and which of its datasets grow.
func (f *jobFlags) addResults(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.fetch, "fetch", nil, "report the variables `NAME,...` (default: the loss of a program that reads its own data, else what its fetch ops name)")
	flags.StringSliceVar(&f.follow, "follow", nil, "datasets `NAME,...` grow while the job runs, until a file named _END appears in their folder")
	flags.StringVar(&f.save, "save", "", "save persistable variables to the directory `DIR`, or to a URL such as s3://bucket/folder, when the run is done")
	flags.BoolVar(&f.overwrite, "overwrite", false, "with --save or --export: replace another model there")
}

// addNames adds the flags by which a job is found again.
func (f *jobFlags) addNames(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.name, "name", "", "`NAME` of the job, which no other unfinished job of the listener has (default: the listener chooses one)")
	cmd.Flags().StringArrayVar(&f.labels, "label", nil, "a label of the job, as `KEY=VALUE`, for \"edl jobs --label\"; repeatable")
	cmd.Flags().StringVar(&f.namespace, "namespace", "", "put the job into the namespace `NAME` of the listener (default: default, or the only one in which you may submit)")
}

// needsFlags say what a role takes.
type needsFlags struct {
	cores float64
	mib   int64
}

// addNeeds adds the flags that say what a job takes of a machine, and when it comes.
func (f *jobFlags) addNeeds(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Int32Var(&f.priority, "priority", 0, "of jobs that wait, those with the highest `P` start first: -100 to 100, above 0 for admins only")
	flags.DurationVar(&f.maxTime, "max-time", 0, "end the job when it has run for `TIME`, such as 90m, without the time in which it waits (default: as long as its listener lets it)")
	for i, role := range []string{"trainer", "pserver"} {
		flags.Float64Var(&f.needs[i].cores, role+"-cores", []float64{1, 0}[i], "a "+role+" takes `N` cores of a listener that counts them; it may be a part, such as 0.5")
		flags.Int64Var(&f.needs[i].mib, role+"-mib", 0, "a "+role+" takes `N` MiB of a listener that counts memory (default: what follows from the program)")
	}
}

// overrideNeeds is override for the flags of addNeeds.
func (f *jobFlags) overrideNeeds(given func(name string) bool, spec *job.JobSpec) error {
	if given("priority") {
		spec.Priority = f.priority
	}
	if given("max-time") {
		spec.MaxTime = durationpb.New(f.maxTime)
	}
	for i, of := range []struct {
		role string
		to   **job.Needs
	}{{"trainer", &spec.TrainerNeeds}, {"pserver", &spec.PserverNeeds}} {
		if given(of.role + "-cores") {
			milli, err := jobspec.Millicores(f.needs[i].cores)
			if err != nil {
				return inFile("--"+of.role+"-cores", err)
			}
			if *of.to == nil {
				*of.to = &job.Needs{}
			}
			(*of.to).Millicores = &milli
		}
		if given(of.role + "-mib") {
			if f.needs[i].mib < 1 {
				return tooFew("--"+of.role+"-mib", f.needs[i].mib)
			}
			n, err := jobspec.Needs(nil, f.needs[i].mib)
			if err != nil {
				return inFile("--"+of.role+"-mib", err)
			}
			if *of.to != nil {
				n.Millicores = (*of.to).Millicores
			}
			*of.to = n
		}
	}
	return nil
}

// spec returns the job that file and flags describe, without its program, and the path of that program: the argument, else what the job
// file names.
func (f *jobFlags) spec(cmd *cobra.Command, args []string) (*job.JobSpec, string, error) {
	spec, path := &job.JobSpec{}, ""
	if f.file != "" {
		file, err := jobspec.Load(f.file)
		if err != nil {
			return nil, "", err
		}
		spec, path = file.Spec, file.Program
	}
	if len(args) > 0 {
		path = args[0]
	}
	if err := f.override(cmd.Flags(), spec); err != nil {
		return nil, "", err
	}
	if spec.Workers == 0 && f.alone {
		spec.Workers = int32(runtime.GOMAXPROCS(0))
	}
	jobspec.Complete(spec)
	if err := checkParams(spec.Params); err != nil {
		return nil, "", err
	}
	return spec, path, ofFlags(cmd.Flags(), jobspec.Check(spec))
}

// ofFlags lets the faults of a spec name the flags that were given, where a flag gives a field: the user of a flag has no job file to look into.
func ofFlags(flags *pflag.FlagSet, err error) error {
	var all fault.List
	if !errors.As(err, &all) {
		return err
	}
	named := make(fault.List, len(all))
	for i, f := range all {
		field, _, _ := strings.Cut(f.Got, " ")
		if flag := strings.ReplaceAll(field, "_", "-"); f.Where == "job" && flags.Changed(flag) {
			c := *f
			c.Where = "--" + flag
			f = &c
		}
		named[i] = f
	}
	return named
}

// override sets the fields of spec whose flags were given, and those that have no value yet to the flags' defaults.
func (f *jobFlags) override(flags *pflag.FlagSet, spec *job.JobSpec) error {
	given := func(name string) bool { return flags.Changed(name) }
	if given("data") {
		data, err := parseData("--data", f.data)
		if err != nil {
			return err
		}
		spec.Data = data
	}
	if given("fetch") {
		spec.Fetch = f.fetch
	}
	if given("day-rounds") {
		if f.dayRounds < 1 {
			return tooFew("--day-rounds", f.dayRounds)
		}
		spec.DayRounds = f.dayRounds
	}
	if given("passes") {
		if f.passes < 1 {
			return tooFew("--passes", int64(f.passes))
		}
		spec.Passes = f.passes
	}
	if given("params") {
		spec.Params = f.params
	}
	if given("save") {
		spec.Save = f.save
	}
	if given("overwrite") {
		spec.Overwrite = f.overwrite
	}
	spec.Params, spec.Save = bucket.LocalPath(spec.Params), bucket.LocalPath(spec.Save)
	if given("workers") {
		if f.workers < 1 {
			return tooFew("--workers", int64(f.workers))
		}
		spec.Workers = f.workers
	}
	if given("no-finite-check") {
		spec.NoFiniteCheck = f.noFinite
	}
	if flags.Lookup("trainers") == nil {
		return nil
	}
	return f.overrideCluster(given, spec)
}

// overrideCluster is override for the flags of addCluster and addSupervision, and for --follow.
func (f *jobFlags) overrideCluster(given func(name string) bool, spec *job.JobSpec) error {
	if given("trainers") || spec.Trainers == 0 {
		if err := parseTrainers(f.trainers, spec); err != nil {
			return err
		}
	}
	if given("pservers") || spec.Pservers == 0 {
		if err := parsePservers(f.pservers, spec); err != nil {
			return err
		}
	}
	if given("max-restarts") {
		if spec.MaxRestarts = f.restarts; f.restarts == 0 {
			spec.MaxRestarts = -1 // what a job specification takes for "not given"
		}
	}
	if given("max-task-failures") {
		if f.failures < 1 {
			return tooFew("--max-task-failures", int64(f.failures))
		}
		spec.MaxTaskFailures = f.failures
	}
	if given("follow") {
		if err := follow(f.follow, spec); err != nil {
			return err
		}
	}
	if err := f.overrideCheckpoints(given, spec); err != nil {
		return err
	}
	if given("mode") {
		spec.Mode, _ = jobspec.ParseMode(f.mode.value)
	}
	if given("min-block-size") {
		if f.minBlock < 1 {
			return tooFew("--min-block-size", f.minBlock)
		}
		spec.MinBlockSize = f.minBlock
	}
	if given("no-slice") {
		spec.NoSlice = f.noSlice
	}
	if given("split-method") {
		spec.SplitMethod = f.split.value
	}
	if given("compress-gradients") {
		spec.CompressGradients = f.compressGradients
	}
	if given("compress-parameters") {
		spec.CompressParameters = f.compressParameters.value
	}
	if given("transport") {
		spec.Transport, _ = jobspec.ParseTransport(f.carrier.value)
	}
	if given("devices") {
		if f.devices < 1 {
			return tooFew("--devices", int64(f.devices))
		}
		spec.Devices = f.devices
	}
	if given("merge-hosts") {
		spec.MergeHosts = f.hosts
	}
	if given("namespace") {
		spec.Namespace = f.namespace
	}
	if given("name") {
		spec.Name = f.name
	}
	if given("label") {
		labels, err := jobspec.ParseLabels(f.labels)
		if err != nil {
			return inFile("--label", err)
		}
		spec.Labels = labels
	}
	if err := f.overrideNeeds(given, spec); err != nil {
		return err
	}
	if given("staleness") {
		spec.Staleness = &f.staleness
	}
	for name, every := range map[string]struct {
		value int32
		field *int32
	}{"push-every": {f.push, &spec.PushEvery}, "pull-every": {f.pull, &spec.PullEvery}} {
		if !given(name) {
			continue
		}
		if every.value < 1 {
			return tooFew("--"+name, int64(every.value))
		}
		*every.field = every.value
	}
	if given("standby") {
		spec.Standby = f.standby
	}
	if given("backup-trainers") {
		spec.BackupTrainers = f.backups
	}
	return nil
}

// overrideCheckpoints is override for the flags of checkpoints.
func (f *jobFlags) overrideCheckpoints(given func(name string) bool, spec *job.JobSpec) error {
	for name, value := range map[string]string{"resume": f.resume, "checkpoint": f.saved} {
		if given(name) && value == "" {
			return fault.E(fault.InvalidArgument, fault.At("--"+name), fault.Got(`""`), fault.Want("a folder, or a URL such as s3://bucket/folder"))
		}
	}
	if given("resume") {
		spec.Resume = f.resume
	}
	if given("checkpoint") {
		if spec.Checkpoints == nil {
			spec.Checkpoints = &job.Checkpoints{}
		}
		spec.Checkpoints.Store, spec.Checkpoints.None = f.saved, false
		if f.saved == "none" {
			spec.Checkpoints = &job.Checkpoints{None: true}
		}
	}
	for _, name := range []string{"checkpoint-every", "keep"} {
		if given(name) && spec.Checkpoints.GetNone() {
			return fault.E(fault.InvalidArgument, fault.At("--"+name), fault.Got("a job without checkpoints"), fault.Want("it without --checkpoint none"))
		}
		if given(name) && spec.Checkpoints == nil {
			spec.Checkpoints = &job.Checkpoints{} // in the listener's data folder
		}
	}
	if given("keep") {
		if f.keep < 1 {
			return tooFew("--keep", int64(f.keep))
		}
		spec.Checkpoints.Keep = f.keep
	}
	if given("checkpoint-every") {
		if err := jobspec.ParseEvery(f.every, spec.Checkpoints); err != nil {
			return inFile("--checkpoint-every", err)
		}
	}
	return nil
}

// follow marks the datasets that grow.
func follow(names []string, spec *job.JobSpec) error {
	for _, d := range spec.Data {
		d.Follow = slices.Contains(names, d.Dataset)
	}
	for _, name := range names {
		if !slices.ContainsFunc(spec.Data, func(d *job.DataBinding) bool { return d.Dataset == name }) {
			return fault.E(fault.InvalidArgument, fault.At("--follow"), fault.Got(fault.Quote(name)), fault.Want("a dataset that --data names"))
		}
	}
	return nil
}

// tooFew is the fault of a flag that was given as 0 or less, which a job specification would take for "not given".
func tooFew(flag string, n int64) error {
	return fault.E(fault.InvalidArgument, fault.At(flag), fault.Got(strconv.FormatInt(n, 10)), fault.Want("1 or more"))
}

// parseData reads the values of a flag such as --data. Several may name one dataset.
func parseData(flag string, values []string) ([]*job.DataBinding, error) {
	var data []*job.DataBinding
	byName := map[string]*job.DataBinding{}
	for _, value := range values {
		name, glob, ok := strings.Cut(value, "=")
		if !ok || name == "" || glob == "" {
			return nil, fault.E(fault.InvalidArgument, fault.At(flag), fault.Got(fault.Quote(value)),
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
	least, most, err := jobspec.ParseBounds(value)
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
		if err := absoluteGlobs(d.Globs); err != nil {
			return err
		}
	}
	paths := []*string{&spec.Save, &spec.Params, &spec.Resume}
	if !spec.Checkpoints.GetNone() && spec.Checkpoints != nil {
		paths = append(paths, &spec.Checkpoints.Store)
	}
	for _, path := range paths {
		if *path == "" || strings.Contains(*path, "://") { // who reads or saves there checks a URL
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

// absoluteGlobs makes globs mean the same in processes with other working directories.
func absoluteGlobs(globs []string) (err error) {
	for i, glob := range globs {
		if globs[i], err = dataset.Absolute(glob); err != nil {
			return err
		}
	}
	return nil
}

// parsePservers reads N or N:MAX. Without MAX a job has no bounds.
func parsePservers(value string, spec *job.JobSpec) error {
	least, most, err := jobspec.ParseBounds(value)
	if err != nil {
		return inFile("--pservers", err)
	}
	spec.Pservers, spec.PserversMin, spec.PserversMax = least, 0, most
	if most > 0 {
		spec.PserversMin = least
	}
	return nil
}
