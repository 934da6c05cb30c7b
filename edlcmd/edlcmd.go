// Package edlcmd is the command edl. A module that registers ops, update rules, dataset drivers or launchers of its own builds its own edl with it:
//
//	package main
//
//	import (
//		"os"
//
//		"github.com/edl-go/edl/edlcmd"
//
//		_ "example.org/mine/ops"
//	)
//
//	func main() { os.Exit(edlcmd.Main()) }
//
// The processes of a job are started from the same binary, so they know what it knows. The two sides of --remote=ADDR compare their ops and name
// those that differ.
//
// Data goes to standard output and diagnostics to standard error, one line each; the exit code says what kind of thing went wrong.
// docs/commands.md is the manual. In edlcmd.go a command line begins and ends; flags.go and jobflags.go read flags; each command is in the
// file of its name (data_formats.go beside data.go, run_once.go beside run.go, and so on; logs, stop and scale are in operate.go). open.go decides
// where a program runs, findjob.go which listener has a job; report.go and report_json.go write what a run yields.
package edlcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/launch"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Main runs the command line of this process and returns its exit code: the main function of a command calls os.Exit with it.
func Main(options ...Option) int {
	diagnostics := os.Stderr
	// Some libraries write to os.Stderr on their own: the SDK of S3 does so when it finds no credentials. The one line of edl says what is wrong, so
	// these lines go nowhere.
	os.Stderr, _ = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	return run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, diagnostics, options...)
}

// An Option changes what Main does.
type Option func(*settings)

// settings are what options change.
type settings struct {
	version   string // empty: of the main module
	launchers []namedLauncher
}

type namedLauncher struct {
	name     string
	launcher launch.Launcher
}

// WithVersion sets what "edl version" prints. The default is the version of the main module as Go has recorded it in the binary.
func WithVersion(version string) Option { return func(s *settings) { s.version = version } }

// WithLauncher adds a way to start the roles of jobs, which --launcher NAME chooses for "edl run --remote" and "edl listen". It starts this binary,
// or another one that has the same ops, with what launch.Launcher says.
func WithLauncher(name string, l launch.Launcher) Option {
	return func(s *settings) { s.launchers = append(s.launchers, namedLauncher{name, l}) }
}

// A console is what a command may reach of the world around it, files and network aside.
type console struct {
	in  io.Reader
	out io.Writer // data
	err io.Writer // diagnostics
	env func(name string) (value string, ok bool)

	settings
	binary string           // of edl for child processes; empty: the one that runs
	ran    func(*runResult) // is called with the result of every run to the end; may be nil
	again  bool             // a run goes on with one that had the same overrides
	parsed bool             // the arguments were understood: an error from now on is not about usage
}

// run executes one command line and returns its exit code. It is all of edl but for the process around it.
func run(parent context.Context, args []string, in io.Reader, out, err io.Writer, options ...Option) (code int) {
	c := &console{in: in, out: printedWriter{out}, err: printedWriter{err}, env: os.LookupEnv}
	for _, option := range options {
		option(&c.settings)
	}
	ctx, release := untilSignal(parent)
	defer release()
	defer func() {
		if p := recover(); p != nil {
			code = c.report(ctx, fault.E(fault.Internal, fault.Cause(fmt.Errorf("internal error: %v", p)), fault.Hint("this is a bug in edl")))
		}
	}()
	root := newRoot(c)
	root.SetArgs(args)
	return c.report(ctx, pathFault(args, commandFault(root, args, root.ExecuteContext(ctx))))
}

func newRoot(c *console) *cobra.Command {
	root := &cobra.Command{
		Use:   "edl",
		Short: "Train programs on one machine or many",
		Long: `EDL runs programs: models that are data. A program is written with the Go DSL, or saved by Fluid; the
same file trains on one machine with "edl run" and on many with "edl run --remote".

Every flag can be set by the environment as EDL_<FLAG>, such as EDL_PASSES=3. A flag on the command line
comes first, then the environment, then the job file given with -f, then the default.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromEnvironment(cmd.Flags(), c.env); err != nil {
				return err
			}
			c.parsed = true
			tellExpiry(cmd, c)
			return nil
		},
	}
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.SetFlagErrorFunc(flagFault)
	root.AddCommand(newRun(c), newData(c), newShow(c), newTranspile(c), newVerify(c), newDemo(c), newVersion(c), newRole(c), newKeeper(c), newPod(c))
	root.AddCommand(newListen(c), newOperator(c), newSubmit(c), newAttach(c), newTop(c), newNode(c), newJobs(c), newWhy(c), newLogs(c), newStop(c), newScale(c), newCheckpoint(c), newExport(c), newCredentials(c), newLogin(c), newToken(c), newJobReport(c), newDoctor(c), newServe(c), newSweep(c), newDiff(c))
	strictBuiltins(root)
	explainArguments(root)
	return root
}

// fromEnvironment sets every flag that the command line left out and the environment names.
func fromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		name := environmentName(f.Name)
		value, ok := lookup(name)
		if err != nil || f.Changed || !ok || value == "" || f.Name == "help" {
			return
		}
		var wrong *pflag.InvalidValueError
		if errors.As(flags.Set(f.Name, value), &wrong) {
			err = valueFault("environment variable "+name, wrong)
		}
		f.Annotations = map[string][]string{environmental: nil}
	})
	return err
}

// environmental marks a flag that the environment has set.
const environmental = "environment"

// onCommandLine reports whether a flag was given, and not by the environment, which speaks to every command.
func onCommandLine(f *pflag.Flag) bool {
	_, set := f.Annotations[environmental]
	return f.Changed && !set
}

// environmentName is the environment variable of a flag.
func environmentName(flag string) string {
	return "EDL_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

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
	if errors.Is(err, errDiffer) || errors.Is(err, errUnwell) { // it has been printed
		return 1
	}
	var known *fault.Fault
	if !c.parsed && !errors.As(err, &known) {
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

// newRole is the command of child processes. It is not for people: it reads what to do from its standard input. Its arguments only name the role in
// the list of processes.
func newRole(c *console) *cobra.Command {
	return &cobra.Command{
		Use:    "role [JOB ROLE]",
		Short:  "Run one role of a job; started by edl itself",
		Hidden: true,
		Args:   cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return remote.RunChild(cmd.Context(), c.in, c.err)
		},
	}
}
