package edlcmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/edl-go/edl/edlcmd/internal/sweep"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/metrics"
	"github.com/edl-go/edl/remote/jobspec"
)

// programOf is the path of the program of a trial. Relative ones are taken from the folder of the sweep file, as those of a job file are.
func (s *sweeper) programOf(t sweep.Trial) string {
	path := cmp.Or(t["program"], s.spec.Program)
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(s.folder, path)
}

// passesOf is how many passes a trial has had at the end of a rung.
func (s *sweeper) passesOf(r sweep.Run) int {
	if n := s.rungs[r.Rung].Passes; n > 0 {
		return int(n)
	}
	n, _ := strconv.Atoi(s.trials[r.Trial]["passes"])
	return n
}

// place is the path of something of a run.
func (s *sweeper) place(r sweep.Run, kind string) string {
	return filepath.Join(s.dir, fmt.Sprintf("trial-%04d", r.Trial), fmt.Sprintf("%s-%d%s", strings.TrimSuffix(kind, filepath.Ext(kind)), r.Rung, filepath.Ext(kind)))
}

// known returns the result of a run that an earlier process has ended, or nil: also when its model has gone since, without which the next rung cannot begin. Models are found
// where they are now, so that a directory may be moved.
func (s *sweeper) known(r sweep.Run) (*trialResult, error) {
	path := s.place(r, "result.json")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	result := &trialResult{}
	if err == nil {
		err = json.Unmarshal(b, result)
	}
	if err != nil {
		return nil, fault.E(fault.Corrupt, fault.At(path), fault.Cause(err), fault.Want("the result of a trial"), fault.Hint("remove the file, and the trial runs again"))
	}
	if result.Score == nil {
		return result, nil
	}
	result.Model = s.place(r, "model")
	if _, err := os.Stat(result.Model); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return result, nil
}

// trial runs a trial on a rung and keeps the result. It begins with the model of the rung before. A loss that is not finite is a result, too; any other failure
// ends the sweep.
func (s *sweeper) trial(ctx context.Context, r sweep.Run) (*trialResult, error) {
	result := &trialResult{Trial: r.Trial, Rung: r.Rung, Passes: s.passesOf(r), Parameters: map[string]any{}}
	for name, text := range s.trials[r.Trial] {
		result.Parameters[name] = text
		if name != "program" {
			result.Parameters[name] = json.Number(text)
		}
	}
	if err := os.MkdirAll(filepath.Dir(s.place(r, "model")), 0o777); err != nil {
		return nil, fileFault(s.dir, err)
	}
	if s.address != "" {
		s.endJob(ctx, r)
	}
	last, err := s.command(ctx, r)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil && fault.KindOf(err) != fault.NotFinite:
		return nil, inFile(s.programOf(s.trials[r.Trial]), s.tables.unseen(err))
	case err != nil:
		result.Error = oneLine(err.Error())
	default:
		score, ok := last[s.kind()]
		if !ok {
			return nil, fault.E(fault.InvalidArgument, fault.At("metric"), fault.Got(fault.Quote(s.kind())+", which the evaluation does not have"),
				fault.Want("one of "+strings.Join(slices.Sorted(maps.Keys(last)), ", ")))
		}
		result.Score, result.Metrics, result.Model = &score, last, s.place(r, "model")
	}
	b, err := json.Marshal(result)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "result of a trial", err)
	}
	return result, replaceFile(s.place(r, "result.json"), append(b, '\n'))
}

// endJob ends the job that a process which was killed has left of the run, and lets the listener forget its state: both have the name that the run needs. What is wrong with the
// listener, the run says.
func (s *sweeper) endJob(ctx context.Context, r sweep.Run) {
	client, err := (&findFlags{listener: s.address}).open(ctx, "")
	if err != nil {
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	id := jobspec.ID(s.within, s.job(r))
	_ = client.Stop(ctx, id)
	_ = client.ReleaseState(ctx, id) // a job that has ended well may have left one
}

// job is the name of the job of a run.
func (s *sweeper) job(r sweep.Run) string { return fmt.Sprintf("%s-%d-%d", s.prefix, r.Trial, r.Rung) }

// command runs "edl run" in this process, and returns the metrics of the evaluation that counts. Its events and its diagnostics go to files beside the model.
func (s *sweeper) command(ctx context.Context, r sweep.Run) (last map[string]jsonNumber, err error) {
	events, err := os.Create(s.place(r, "events.jsonl"))
	if err != nil {
		return nil, fileFault(s.dir, err)
	}
	defer func() { err = errors.Join(err, events.Close()) }()
	log, err := os.Create(s.place(r, "run.log"))
	if err != nil {
		return nil, fileFault(s.dir, err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	defer func() {
		if p := recover(); p != nil {
			err = fault.E(fault.Internal, fault.Cause(fmt.Errorf("internal error: %v", p)), fault.Hint("this is a bug in edl"))
		}
	}()
	of := *s.console
	of.in, of.out, of.err, of.ran, of.parsed = bytes.NewReader(nil), events, log, nil, false
	of.env, of.again = func(string) (string, bool) { return "", false }, r.Rung > 0 // the sweep file says what a trial has, not the environment
	root := newRoot(&of)
	root.SetArgs(s.arguments(r))
	if err := root.ExecuteContext(ctx); err != nil {
		return nil, err
	}
	return lastMetrics(events)
}

// arguments is the command line of a run.
func (s *sweeper) arguments(r sweep.Run) []string {
	trial := s.trials[r.Trial]
	args := []string{"run", s.programOf(trial), "--output", "json", "--save", s.place(r, "model")}
	give := func(flag string, of map[string]sweep.Texts) {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			for _, glob := range of[name] {
				args = append(args, flag+"="+name+"="+glob)
			}
		}
	}
	give("--data", s.spec.Data)
	give("--eval-data", s.spec.EvalData)
	if s.spec.Metric != metrics.Loss {
		args = append(args, "--metric="+s.spec.Metric)
	}
	passes := s.passesOf(r)
	if r.Rung > 0 {
		before := sweep.Run{Trial: r.Trial, Rung: r.Rung - 1}
		passes -= s.passesOf(before)
		args = append(args, "--params="+s.place(before, "model"))
	}
	args = append(args, "--passes="+strconv.Itoa(passes))
	for _, name := range []string{"learning_rate", "batch_size", "seed"} {
		if text, ok := trial[name]; ok {
			args = append(args, "--"+strings.ReplaceAll(name, "_", "-")+"="+text)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.spec.Run)) {
		for _, text := range s.spec.Run[name] {
			args = append(args, "--"+name+"="+text)
		}
	}
	if _, given := s.spec.Run["memory"]; s.memory > 0 && !given {
		args = append(args, "--memory="+strconv.FormatInt(s.memory, 10))
	}
	if _, given := s.spec.Run["workers"]; s.address == "" && !given {
		args = append(args, "--workers=1")
	}
	if s.address != "" {
		args = append(args, "--remote="+s.address, "--name="+s.job(r))
		if s.within != "" {
			args = append(args, "--namespace="+s.within)
		}
	}
	return args
}

// lastMetrics reads the event done of a run: of the best evaluation where the best model was kept, else of the last one.
func lastMetrics(events *os.File) (map[string]jsonNumber, error) {
	if _, err := events.Seek(0, io.SeekStart); err != nil {
		return nil, fileFault(events.Name(), err)
	}
	d := json.NewDecoder(events)
	for {
		var e doneEvent
		if err := d.Decode(&e); err != nil {
			return nil, fault.Wrap(fault.Internal, events.Name(), fmt.Errorf("no event of the end: %w", err))
		}
		switch {
		case e.Event != "done":
		case e.Best != nil:
			return e.Best.Metrics, nil
		default:
			return e.Metrics, nil
		}
	}
}

// tell says on standard error what a trial came to.
func (s *sweeper) tell(r *trialResult) {
	runs := 0
	for _, rung := range s.rungs {
		runs += rung.Trials
	}
	text := "failed: " + r.Error
	if r.Score != nil {
		text = fmt.Sprintf("%s %.6g", s.kind(), float64(*r.Score))
	}
	fmt.Fprintf(s.console.err, "run %d of %d  trial %d  %s  passes %d  %s\n", s.ended, runs, r.Trial, textTrial(s.trials[r.Trial]), r.Passes, text)
}

// textTrial is the parameters of a trial as text.
func textTrial(t sweep.Trial) string {
	var parts []string
	for _, name := range shownNames(t) {
		parts = append(parts, name+" "+t[name])
	}
	return strings.Join(parts, "  ")
}

// shownNames are the parameters that have a place of their own where results are shown: passes are shown in any case.
func shownNames[T any](parameters map[string]T) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(parameters)), func(name string) bool { return name == "passes" })
}

// show prints the results, the best first.
func (s *sweeper) show(output string) error {
	ranked := s.ranking()
	if output == "json" {
		return writeJSON(s.console.out, map[string]any{"metric": s.spec.Metric, "best": ranked[0].Trial, "trials": ranked})
	}
	names := shownNames(s.spec.Parameters)
	w := tabwriter.NewWriter(s.console.out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "TRIAL")
	for _, name := range names {
		fmt.Fprintf(w, "\t%s", strings.ToUpper(strings.ReplaceAll(name, "_", " ")))
	}
	fmt.Fprintf(w, "\tPASSES\t%s\n", strings.ToUpper(s.kind()))
	for _, r := range ranked {
		fmt.Fprint(w, r.Trial)
		for _, name := range names {
			fmt.Fprintf(w, "\t%s", s.trials[r.Trial][name])
		}
		if r.Score == nil {
			fmt.Fprintf(w, "\t%d\tfailed\n", r.Passes)
			continue
		}
		fmt.Fprintf(w, "\t%d\t%.6g\n", r.Passes, float64(*r.Score))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.console.out, "best  trial %d  %s\n", ranked[0].Trial, ranked[0].Model)
	return err
}
