// Peers measures EDL beside PyTorch, gorgonia and OpenBLAS on this machine and prints the result as Markdown.
//
//	peers [-rounds N] [-seconds S] [-threads 1,2] [-run REGEXP] [-best]  every workload
//	peers -growth [-plot FILE.svg] ...                                   how the cost of a step grows
//
// Each measurement is a process of its own, and the contenders take turns, so that all see the same weather. A measurement during which other
// processes used the machine is taken again, -retries times at most. On a machine that never becomes quiet, -best compares the fastest windows
// of 20 ms instead of the median ones. PyTorch comes from Debian: apt-get install python3-torch
// libopenblas0-openmp.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
)

// settings are the flags.
type settings struct {
	rounds  int
	seconds float64
	retries int
	calm    float64
	threads []int
	run     *regexp.Regexp
	best    bool
	growth  bool
	plot    string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := parse(os.Args[1:])
	if err == nil {
		err = compare(ctx, s, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(fault.KindOf(err).ExitCode())
	}
}

func parse(arguments []string) (settings, error) {
	var s settings
	var threads, run string
	flags := flag.NewFlagSet("peers", flag.ExitOnError)
	flags.IntVar(&s.rounds, "rounds", 5, "measurements of each contender")
	flags.Float64Var(&s.seconds, "seconds", 1, "length of a measurement")
	flags.IntVar(&s.retries, "retries", 3, "how often a disturbed measurement is taken again")
	flags.Float64Var(&s.calm, "calm", 0.1, "cores that other processes may use before a measurement counts as disturbed")
	flags.StringVar(&threads, "threads", "1,2", "numbers of threads")
	flags.StringVar(&run, "run", "", "only workloads that match this regular expression")
	flags.BoolVar(&s.best, "best", false, "compare the fastest window of each measurement, not the median one")
	flags.BoolVar(&s.growth, "growth", false, "measure step time against batch, layers and parameters")
	flags.StringVar(&s.plot, "plot", "", "with -growth, draw the result into this SVG or PNG file")
	if err := flags.Parse(arguments); err != nil {
		return s, fault.Wrap(fault.InvalidArgument, "flags", err)
	}
	for _, text := range strings.Split(threads, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return s, fault.E(fault.InvalidArgument, fault.Got("-threads "+threads), fault.Want("numbers of at least 1 with commas between them"))
		}
		s.threads = append(s.threads, n)
	}
	var err error
	if s.run, err = regexp.Compile(run); err != nil {
		return s, fault.Wrap(fault.InvalidArgument, "-run", err)
	}
	if s.rounds < 1 || flags.NArg() > 0 {
		return s, fault.E(fault.InvalidArgument, fault.Got(strings.Join(arguments, " ")), fault.Want("at least one round and no arguments"))
	}
	return s, nil
}

// compare measures what s asks for and writes the report.
func compare(ctx context.Context, s settings, out io.Writer) error {
	dir, err := os.MkdirTemp("", "edl-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	all, err := prepare(ctx, dir)
	if err != nil {
		return err
	}
	limits := newMachine()
	limits.measure(s.threads)
	sections := tables
	if s.growth {
		sections = growth
	}
	measured, err := measureAll(ctx, s, sections, all)
	if err != nil {
		return err
	}
	limits.measure(s.threads)
	if err := report(out, s, limits, sections, measured); err != nil {
		return err
	}
	if s.growth && s.plot != "" {
		return plotGrowth(s, limits, measured)
	}
	return nil
}
