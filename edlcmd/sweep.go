package edlcmd

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/edl-go/edl/edlcmd/internal/sweep"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/filelock"
	"github.com/edl-go/edl/internal/freememory"
	"github.com/edl-go/edl/metrics"
	"github.com/edl-go/edl/program"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// sweepFlags are the flags of "edl sweep".
type sweepFlags struct {
	file, dir, address string
	namespace          string
	parallel           int
	batch              batchFlag
	schema             string
	output             *choice
}

func newSweep(c *console) *cobra.Command {
	f := &sweepFlags{}
	cmd := &cobra.Command{
		Use:        "sweep -f FILE -o DIR",
		SuggestFor: []string{"tune", "search", "optimize"},
		Short:      "Train a program with different learning rates, batch sizes, seeds or passes, and compare",
		Long: `Train what a sweep file describes once for each trial, several trials at a time, and compare them on held-back data.

Results and models go to DIR. The same command again goes on with the trials that have not ended.`,
		Example: `  edl sweep -f sweep.yaml -o sweep
  edl sweep -f sweep.yaml -o sweep --remote=10.0.0.5:7164 --parallel 8 --namespace ads`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSweep(cmd, c, f) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "sweep `FILE` (sweep.yaml)")
	flags.StringVarP(&f.dir, "out", "o", "", "keep results and models in the directory `DIR`")
	flags.StringVar(&f.address, "remote", "", "run trials as jobs of the listener at `ADDR`; without it in this process")
	flags.StringVar(&f.namespace, "namespace", "", "with --remote: put the jobs of trials into the namespace `NAME` of the listener (default: default, or the only one in which you may submit)")
	flags.IntVar(&f.parallel, "parallel", 0, "run `N` trials at a time (default: what the file says, else one for each core)")
	f.batch.add(cmd)
	flags.StringVar(&f.schema, "schema", "", "read tables (CSV, JSON lines, Parquet) among the data by the schema `FILE` of \"edl data infer\"")
	f.output = outputFlag(cmd)
	return cmd
}

// A sweeper runs a sweep.
type sweeper struct {
	console *console
	spec    *sweep.Spec
	folder  string // of the sweep file
	dir     string
	address string // of a listener; empty: in this process
	within  string // the namespace of jobs; empty: where the listener puts jobs of this user
	prefix  string // of the names of jobs
	memory  int64  // MiB for each trial of this process; 0: not known
	tables  tableData

	programs map[string]*program.Program // by their paths

	trials  []sweep.Trial
	rungs   []sweep.Rung
	results map[int]*trialResult // the last one of each trial
	ended   int                  // runs
}

// A trialResult is what a trial came to on a rung, as its file has it.
type trialResult struct {
	Trial      int                   `json:"trial"`
	Parameters map[string]any        `json:"parameters"`
	Rung       int                   `json:"rung"`
	Passes     int                   `json:"passes"` // from its beginning
	Score      *jsonNumber           `json:"score,omitempty"`
	Metrics    map[string]jsonNumber `json:"metrics,omitempty"` // of the evaluation that counts
	Model      string                `json:"model,omitempty"`
	Error      string                `json:"error,omitempty"`
}

func (r *trialResult) outcome() sweep.Outcome {
	if r.Score == nil {
		return sweep.Outcome{Failed: true}
	}
	return sweep.Outcome{Score: float64(*r.Score)}
}

func runSweep(cmd *cobra.Command, c *console, f *sweepFlags) error {
	if f.file == "" || f.dir == "" {
		return fault.E(fault.InvalidArgument, fault.At("edl sweep"), fault.Got("no sweep file, or no directory for results"), fault.Want("-f FILE -o DIR"))
	}
	if err := folderHere("-o", f.dir); err != nil {
		return err
	}
	file, _, err := openRegular(f.file)
	if err != nil {
		return err
	}
	defer file.Close()
	spec, err := sweep.Read(file)
	if err != nil {
		return inFile(f.file, err)
	}
	s := &sweeper{console: c, spec: spec, folder: filepath.Dir(f.file), dir: f.dir, address: f.address, within: f.namespace, results: map[int]*trialResult{}}
	if s.trials, err = spec.List(); err != nil {
		return inFile(f.file, err)
	}
	if s.rungs = spec.Rungs(len(s.trials)); cmd.Flags().Changed("parallel") && f.parallel < 1 {
		return tooFew("--parallel", int64(f.parallel))
	}
	if err := takeReading(spec, cmd.Flags(), f.file); err != nil {
		return err
	}
	if err := s.checkRun(f.file); err != nil {
		return err
	}
	if f.address != "" {
		if err := checkAddress("--remote", f.address); err != nil {
			return err
		}
	} else if err := refuseIdle(cmd.Flags(), []string{"namespace"}, "trials in this process", "it together with --remote=ADDR"); err != nil {
		return err
	}
	parallel := min(cmp.Or(f.parallel, spec.Parallel, runtime.GOMAXPROCS(0)), len(s.trials))
	if f.address == "" {
		s.memory = freememory.Bytes() >> 20 / int64(parallel)
	}
	release, err := s.open()
	if err != nil {
		return err
	}
	defer release()
	if err := s.tables.giveTrials(cmd.Context(), c, spec, s.programs); err != nil {
		return err
	}
	if err := s.run(cmd.Context(), parallel); err != nil {
		return err
	}
	return s.show(f.output.value)
}

// ownFlags are flags of "edl run" that the sweep sets itself.
var ownFlags = []string{"data", "eval-data", "metric", "passes", "params", "save", "export", "remote", "name", "namespace", "output", "resume", "learning-rate", "seed", "file", "plot", "tensorboard", "profile", "from-start", "partial",
	"checkpoint", "feed", "lod", "help"}

// checkRun refuses flags of trials that "edl run" does not have, or that a trial cannot have.
func (s *sweeper) checkRun(file string) error {
	var names []string
	newRun(s.console).Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(ownFlags, f.Name) {
			names = append(names, f.Name)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(s.spec.Run)) {
		if slices.Contains(ownFlags, name) {
			return fault.E(fault.InvalidArgument, fault.At(file+", run"), fault.Got("the flag "+fault.Quote(name)+", which the sweep gives to each trial"), fault.Want("other flags of \"edl run\""))
		}
		if !slices.Contains(names, name) {
			return fault.E(fault.InvalidArgument, fault.At(file+", run"), fault.Got("the flag "+fault.Quote(name)+", which \"edl run\" does not have"), fault.DidYouMean(name, names))
		}
	}
	return nil
}

// jobName is the form of a name of a job.
var jobName = regexp.MustCompile(`[^a-z0-9-]+`)

// open makes the directory of the sweep, or finds it, and keeps other processes out of it. It reads nothing of a directory that belongs to another sweep.
func (s *sweeper) open() (release func(), err error) {
	if err := os.MkdirAll(s.dir, 0o777); err != nil {
		return nil, fileFault(s.dir, err)
	}
	lock, err := os.OpenFile(filepath.Join(s.dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, fileFault(s.dir, err)
	}
	release = func() { lock.Close() }
	if err := filelock.Try(lock); filelock.Supported && err != nil {
		release()
		return nil, fault.E(fault.InvalidArgument, fault.At(s.dir), fault.Got("a sweep that another process runs"), fault.Want("another directory, or its end"))
	}
	described, err := s.describe()
	if err == nil {
		err = s.claim(described)
	}
	if err != nil {
		release()
		return nil, err
	}
	absolute, err := filepath.Abs(s.dir)
	if err != nil {
		release()
		return nil, fileFault(s.dir, err)
	}
	host, _ := os.Hostname()
	sum := sha256.Sum256([]byte(host + "\n" + absolute))
	name := strings.Trim(jobName.ReplaceAllString(strings.ToLower(cmp.Or(s.spec.Name, "sweep")), "-"), "-")
	s.prefix = fmt.Sprintf("%.24s-%s", cmp.Or(name, "sweep"), hex.EncodeToString(sum[:3]))
	return release, nil
}

// describe is all that the results of the sweep depend on, and the hashes of its programs.
func (s *sweeper) describe() ([]byte, error) {
	programs := map[string]string{}
	s.programs = map[string]*program.Program{}
	for _, trial := range s.trials {
		path := s.programOf(trial)
		if programs[path] != "" {
			continue
		}
		p, _, err := loadWhole(path)
		if err != nil {
			return nil, err
		}
		if err := checkReads(s.spec, path, p, trial); err != nil {
			return nil, err
		}
		s.programs[path] = p
		hash, err := p.Hash()
		if err != nil {
			return nil, err
		}
		programs[path] = hex.EncodeToString(hash[:])
	}
	return json.MarshalIndent(map[string]any{"programs": programs, "data": s.spec.Data, "eval_data": s.spec.EvalData, "metric": s.spec.Metric, "run": s.spec.Run,
		"trials": s.trials, "rungs": s.rungs}, "", " ")
}

// claim writes what the directory is for, or compares.
func (s *sweeper) claim(described []byte) error {
	path := filepath.Join(s.dir, "sweep.json")
	found, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return replaceFile(path, described)
	case err != nil:
		return fileFault(path, err)
	case !bytes.Equal(found, described):
		return fault.E(fault.InvalidArgument, fault.At(s.dir), fault.Got("a directory of another sweep: the sweep file, or a program, has changed"), fault.Want("another directory for -o"))
	}
	return nil
}

// replaceFile writes a small file as a whole or not at all, also if the machine stops.
func replaceFile(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return fileFault(path, err)
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fileFault(path, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// run runs all that has not run, parallel trials at a time. The first error that is not about one trial ends it; trials that have ended keep their results.
func (s *sweeper) run(ctx context.Context, parallel int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type ended struct {
		run    sweep.Run
		result *trialResult
		err    error
	}
	ends := make(chan ended)
	var trials sync.WaitGroup
	defer trials.Wait()
	m := sweep.New(s.rungs, parallel, s.better)
	running := 0
	step := func(event sweep.Event) error {
		todo := []sweep.Event{event}
		for len(todo) > 0 {
			f, err := m.Step(todo[0])
			if err != nil {
				return err
			}
			todo = todo[1:]
			for _, r := range f.Runs {
				known, err := s.known(r)
				if err != nil {
					return err
				}
				if known != nil {
					todo = append(todo, s.take(r, known))
					continue
				}
				running++
				trials.Go(func() {
					result, err := s.trial(ctx, r)
					ends <- ended{r, result, err}
				})
			}
		}
		return nil
	}
	failure := step(sweep.Begin{})
	for running > 0 {
		if failure != nil {
			cancel() // what runs ends soon, and is waited for
		}
		e := <-ends
		running--
		if failure != nil {
			continue
		}
		if failure = e.err; failure != nil {
			continue
		}
		if failure = step(s.take(e.run, e.result)); failure == nil {
			s.tell(e.result)
		}
	}
	if failure != nil {
		return failure
	}
	if best := s.ranking()[0]; best.Score == nil {
		return fault.E(fault.NotFinite, fault.Gotf("no trial whose loss stays finite; trial %d: %s", best.Trial, best.Error), fault.Want("parameters with which the program trains"))
	}
	return nil
}

// take keeps the result of a run.
func (s *sweeper) take(r sweep.Run, result *trialResult) sweep.Ended {
	s.results[r.Trial] = result
	s.ended++
	return sweep.Ended{Run: r, Outcome: result.outcome()}
}

// kind is that of the metric by which trials are compared.
func (s *sweeper) kind() string {
	kind, _, _ := strings.Cut(s.spec.Metric, "=")
	return kind
}

func (s *sweeper) better(value, than float64) bool { return metrics.Better(s.kind(), value, than) }

// ranking returns the results, the best first: those that have come furthest, and of these the better ones.
func (s *sweeper) ranking() []*trialResult {
	return slices.SortedFunc(maps.Values(s.results), func(a, b *trialResult) int {
		if (a.Score == nil) == (b.Score == nil) {
			if c := cmp.Compare(b.Rung, a.Rung); c != 0 {
				return c
			}
		}
		return cmp.Or(sweep.Compare(a.outcome(), b.outcome(), s.better), cmp.Compare(a.Trial, b.Trial))
	})
}
