// Command edl trains programs on one machine or many, runs saved ones, and shows what is in EDL's files.
//
// Every command lives in a file of its own name. Data goes to standard output and diagnostics to standard error, one line each; the exit
// code says what kind of thing went wrong. docs/commands.md is the manual.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	_ "github.com/edl-go/edl/ops/all"

	"github.com/edl-go/edl/fault"
)

func main() {
	diagnostics := os.Stderr
	// Libraries that log on their own, as the SDK of S3 does about credentials that it does not find, take the file that stands here when they begin.
	// Their lines would stand beside the one that says what is wrong. Where this file cannot be opened they write to none.
	os.Stderr, _ = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, diagnostics))
}

// A console is what a command may reach of the world around it, files and network aside.
type console struct {
	in  io.Reader
	out io.Writer // data
	err io.Writer // diagnostics
	env func(name string) (value string, ok bool)

	binary string           // of edl for child processes; empty: the one that runs
	ran    func(*runResult) // told of every run to the end; may be nil
	parsed bool             // the arguments were understood: an error from now on is not about usage
}

// run executes one command line and returns its exit code. It is all of edl but for the process around it.
func run(parent context.Context, args []string, in io.Reader, out, err io.Writer) (code int) {
	c := &console{in: in, out: out, err: err, env: os.LookupEnv}
	ctx, release := untilSignal(parent)
	defer release()
	defer func() {
		if p := recover(); p != nil {
			code = c.report(ctx, fault.E(fault.Internal, fault.Cause(fmt.Errorf("internal error: %v", p)), fault.Hint("this is a bug in edl")))
		}
	}()
	root := newRoot(c)
	root.SetArgs(args)
	return c.report(ctx, root.ExecuteContext(ctx))
}
