package measure

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"time"

	"github.com/edl-go/edl/fault"
)

// Main is the main function of a program WORKLOAD THREADS SECONDS that prints one Result. setup makes the workload ready; what it returns
// lives until the program ends. Go code runs on THREADS threads at a time, garbage collection included.
func Main(setup func(ctx context.Context, workload string, threads int) (Work, error)) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout, setup); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(fault.KindOf(err).ExitCode())
	}
}

func command(ctx context.Context, arguments []string, out io.Writer, setup func(context.Context, string, int) (Work, error)) error {
	if len(arguments) != 3 {
		return fault.New(fault.InvalidArgument, "usage: WORKLOAD THREADS SECONDS")
	}
	threads, err := strconv.Atoi(arguments[1])
	if err != nil || threads < 1 {
		return fault.E(fault.InvalidArgument, fault.Got("threads "+arguments[1]), fault.Want("a number, at least 1"))
	}
	seconds, err := strconv.ParseFloat(arguments[2], 64)
	if err != nil {
		return fault.E(fault.InvalidArgument, fault.Got("seconds "+arguments[2]), fault.Want("a number"))
	}
	runtime.GOMAXPROCS(threads)
	start, err := PeakMemory()
	if err != nil {
		return err
	}
	work, err := setup(ctx, arguments[0], threads)
	if err != nil {
		return err
	}
	result, err := Repeat(time.Duration(seconds*float64(time.Second)), work)
	if err != nil {
		return err
	}
	result.StartMemory = start
	if result.PeakMemory, err = PeakMemory(); err != nil {
		return err
	}
	return result.Write(out)
}
