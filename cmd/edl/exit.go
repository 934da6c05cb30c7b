package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/edl-go/edl/fault"
)

// untilSignal returns a context that ends with the first SIGINT or SIGTERM, and what releases it. A second signal ends the process at
// once, as it would without edl.
func untilSignal(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		select {
		case s := <-signals:
			cancel(signalFault(s))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// signalFault is why the context of a command ended.
func signalFault(s os.Signal) error {
	if s == syscall.SIGTERM {
		return fault.New(fault.Drained, "terminated")
	}
	return fault.New(fault.Canceled, "interrupted")
}

// report prints an error, each of its faults on a line, and returns the exit code.
func (c *console) report(ctx context.Context, err error) int {
	if err == nil {
		return 0
	}
	var told *fault.Fault
	if !c.parsed && !errors.As(err, &told) {
		err = fault.E(fault.InvalidArgument, fault.Cause(errors.New(oneLine(err.Error()))), fault.Hint(`"edl --help" lists commands and flags`))
	}
	kind := fault.KindOf(err)
	if ctx.Err() != nil && (kind == fault.Canceled || errors.Is(err, context.Canceled)) {
		err = context.Cause(ctx)
		kind = fault.KindOf(err)
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(c.err, "edl:", strings.TrimSpace(line))
	}
	return kind.ExitCode()
}

// oneLine replaces each run of white space by a blank.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
