package remote_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote"
)

// lawCases is how many random cases a property is tested with; -rapid.checks=N asks for more.
const lawCases = "15"

// Environment of this test binary when it runs as a child.
const (
	behaviourEnv = "EDL_REMOTE_TEST"       // what the child does
	lifeEnv      = "EDL_REMOTE_TEST_LIFE"  // where it connects, so that its end is seen
	pauseEnv     = "EDL_REMOTE_TEST_PAUSE" // where test_pause connects
	workEnv      = "EDL_REMOTE_TEST_WORK"  // a directory of the test
)

func TestMain(m *testing.M) {
	if behaviour, ok := behaviours[os.Getenv(behaviourEnv)]; ok {
		os.Exit(asChild(behaviour))
	}
	if err := flag.Set("rapid.checks", lawCases); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// behaviours is what the test binary does as a child.
var behaviours = map[string]func(context.Context) error{
	"role":      func(ctx context.Context) error { return remote.RunChild(ctx, os.Stdin, os.Stderr) },
	"parent":    trainForever,
	"transpile": describeTranspiled,
}

func asChild(behave func(context.Context) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() { // as the command does: the first asks for an end in order, a second ends the process
		<-signals
		signal.Stop(signals)
		cancel(fault.New(fault.Drained, "terminated"))
	}()
	if address := os.Getenv(lifeEnv); address != "" {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return 1
		}
		defer conn.Close()
		fmt.Fprintln(conn, "lives", os.Getpid())
	}
	err := behave(ctx)
	if err != nil {
		fmt.Fprintln(io.Writer(os.Stderr), err)
	}
	return fault.KindOf(err).ExitCode()
}
