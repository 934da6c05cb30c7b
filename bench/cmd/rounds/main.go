// Rounds measures the rounds of jobs on a cluster of this machine, beside PyTorch's DistributedDataParallel and copies of bytes over loopback, and
// prints the result as Markdown.
//
//	rounds [-rounds N] [-seconds S] [-run REGEXP] [-transport tcp,shm]   steps, grid, transfer and whole jobs
//	rounds -growth [-csv FILE] [-plot FILE.svg] ...                      how the cost of a round grows, and a model of it
//
// Each measurement is a process of its own, which starts a listener as `edl run --remote` does. The contenders take turns. A measurement is repeated,
// at most -retries times, if other processes used the machine. A measurement that fails is reported, and the others go on. PyTorch comes from Debian:
// apt-get install python3-torch libopenblas0-openmp.
//
// Files: main.go has flags and the commands of child processes, rows.go what is measured, sample.go measures it in turns, report.go and growth.go
// write the results.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/edl-go/edl/bench"
	"github.com/edl-go/edl/bench/internal/measure"
	"github.com/edl-go/edl/bench/internal/rounds"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote"
)

// settings are the flags.
type settings struct {
	rounds     int
	seconds    float64
	retries    int
	calm       float64
	run        *regexp.Regexp
	transports []string // "" stands for the default of the product
	memory     float64
	growth     bool
	limit      time.Duration
	plot, csv  string
}

// Commands of child processes.
const (
	roleCommand       = "role"        // a role of a job
	jobCommand        = "job"         // measures a rounds.Job
	localCommand      = "local"       // measures a workload on one machine
	copyCommand       = "copy"        // measures a rounds.Copy
	copyServerCommand = "copy-server" // answers a copy
)

func main() { os.Exit(run(os.Args[1:])) }

func run(arguments []string) int {
	if len(arguments) > 0 && arguments[0] == roleCommand {
		return exitCode(role(context.Background()))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(arguments) > 0 && !strings.HasPrefix(arguments[0], "-") {
		return exitCode(child(ctx, arguments, os.Stdout))
	}
	s, err := parse(arguments)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil {
		err = compare(ctx, s, os.Stdout)
	}
	return exitCode(err)
}

func exitCode(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return fault.KindOf(err).ExitCode()
}

// child is one of the commands of child processes that measure.
func child(ctx context.Context, arguments []string, out io.Writer) error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	switch command, rest := arguments[0], arguments[1:]; {
	case command == jobCommand && len(rest) == 2: // JOB DATA
		var j rounds.Job
		if err := json.Unmarshal([]byte(rest[0]), &j); err != nil {
			return fault.Wrap(fault.InvalidArgument, "job", err)
		}
		r, err := rounds.Run(ctx, j, []string{binary, roleCommand}, rest[1])
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(r)
	case command == localCommand && len(rest) == 2: // WORKLOAD SECONDS
		return local(ctx, rest[0], rest[1], out)
	case command == copyCommand && len(rest) == 1: // COPY
		var c rounds.Copy
		if err := json.Unmarshal([]byte(rest[0]), &c); err != nil {
			return fault.Wrap(fault.InvalidArgument, "copy", err)
		}
		r, err := rounds.RunCopy(ctx, c, []string{binary, copyServerCommand})
		if err != nil {
			return err
		}
		return r.Write(out)
	case command == copyServerCommand && len(rest) == 3: // NETWORK PATH BYTES
		share, err := strconv.Atoi(rest[2])
		if err != nil {
			return fault.Wrap(fault.InvalidArgument, "bytes", err)
		}
		return rounds.ServeCopy(rest[0], rest[1], share, out)
	}
	return fault.E(fault.InvalidArgument, fault.Got(strings.Join(arguments, " ")), fault.Want("flags; commands are for child processes"))
}

// role runs a role of a job, as the command edl does: a SIGTERM asks it to end in order.
func role(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		select {
		case <-signals:
			cancel(fault.New(fault.Drained, "terminated"))
		case <-ctx.Done():
		}
	}()
	return remote.RunChild(ctx, os.Stdin, os.Stderr)
}

// local measures the steps of a fed workload on one machine with one thread.
func local(ctx context.Context, workload, duration string, out io.Writer) error {
	seconds, err := strconv.ParseFloat(duration, 64)
	if err != nil {
		return fault.Wrap(fault.InvalidArgument, "seconds", err)
	}
	w, err := bench.New(workload)
	if err != nil {
		return err
	}
	training, err := bench.Start(ctx, w, 1)
	if err != nil {
		return err
	}
	defer training.Close()
	r, err := measure.Repeat(time.Duration(seconds*float64(time.Second)), func(i int) error {
		_, err := training.Step(ctx, i)
		return err
	})
	if err != nil {
		return err
	}
	if r.PeakMemory, err = measure.PeakMemory(); err != nil {
		return err
	}
	return r.Write(out)
}

func parse(arguments []string) (settings, error) {
	var s settings
	var match, transports string
	flags := flag.NewFlagSet("rounds", flag.ContinueOnError)
	flags.IntVar(&s.rounds, "rounds", 0, "measurements of each contender (default 5; with -growth 1)")
	flags.Float64Var(&s.seconds, "seconds", 2, "length of a measurement after its warm-up")
	flags.IntVar(&s.retries, "retries", 1, "how often a disturbed measurement is taken again")
	flags.Float64Var(&s.calm, "calm", 0.1, "cores that other processes may use before a measurement counts as disturbed")
	flags.StringVar(&match, "run", "", "only rows whose SECTION/LABEL matches this regular expression")
	flags.StringVar(&transports, "transport", "", "transports of jobs, with commas between them; each is a contender (default: that of the product)")
	flags.Float64Var(&s.memory, "memory", 16, "GiB that the processes of a job may take")
	flags.BoolVar(&s.growth, "growth", false, "measure the cost of a round against trainers, pservers, bytes and slices")
	flags.DurationVar(&s.limit, "limit", 15*time.Minute, "with -growth, leave out what is not measured by then")
	flags.StringVar(&s.csv, "csv", "", "with -growth, write all points into this file")
	flags.StringVar(&s.plot, "plot", "", "with -growth, draw the result into this SVG or PNG file")
	if err := flags.Parse(arguments); errors.Is(err, flag.ErrHelp) {
		return s, err
	} else if err != nil {
		return s, fault.Wrap(fault.InvalidArgument, "flags", err)
	}
	s.transports = strings.Split(transports, ",")
	var err error
	if s.run, err = regexp.Compile(match); err != nil {
		return s, fault.Wrap(fault.InvalidArgument, "-run", err)
	}
	if s.rounds == 0 {
		if s.rounds = 5; s.growth {
			s.rounds = 1
		}
	}
	wrong := func(want string) (settings, error) {
		return s, fault.E(fault.InvalidArgument, fault.Got(strings.Join(arguments, " ")), fault.Want(want))
	}
	switch {
	case s.rounds < 1 || !(s.seconds > 0) || !(s.memory > 0) || flags.NArg() > 0:
		return wrong("at least one round, some time and memory, and no arguments")
	case len(s.transports) > 1 && slices.Contains(s.transports, ""):
		return wrong("-transport NAME,NAME,...")
	case s.growth && len(s.transports) > 1:
		return wrong("one transport with -growth: the model is that of one")
	case slices.ContainsFunc(s.transports, func(name string) bool { return !rounds.KnowsTransport(name) }):
		return wrong("transports that this build knows")
	case !s.measuresSomething():
		return wrong("-run with the name of a row, SECTION/LABEL")
	case !s.growth && (s.csv != "" || s.plot != ""):
		return wrong("-csv and -plot together with -growth")
	}
	return s, nil
}

// measuresSomething reports whether -run chooses a row.
func (s *settings) measuresSomething() bool {
	if s.growth {
		return slices.ContainsFunc(growthPoints(), func(p growthPoint) bool { return s.run.MatchString(p.curve + "/" + p.row().label) })
	}
	for range (&runner{settings: *s}).selected(tables) {
		return true
	}
	return false
}

// compare measures what s asks for and writes the report.
func compare(ctx context.Context, s settings, out io.Writer) error {
	dir, err := os.MkdirTemp("", "edl-rounds-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	r := &runner{settings: s, binary: binary, dir: dir, samples: map[key][]sample{}, failed: map[key]string{}, kernels: map[string]string{}}
	if s.growth {
		return growthReport(ctx, r, out)
	}
	if err := r.prepare(ctx, tables); err != nil {
		return err
	}
	if err := r.measureAll(ctx, tables); err != nil {
		return err
	}
	return r.report(out, tables)
}
