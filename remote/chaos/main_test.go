package chaos_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"testing"

	"go.uber.org/goleak"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote"
)

// childEnv makes this test binary run a role.
const childEnv = "EDL_CHAOS_ROLE"

var (
	seed   = flag.Uint64("chaos.seed", 1, "seed of the first run of each kind")
	runs   = flag.Int("chaos.runs", 1, "runs of each kind, with seeds that follow each other")
	faults = flag.Int("chaos.faults", 5, "faults in each run")
	logs   = flag.String("chaos.logs", "", "directory that what the roles write goes to")
	kills  = flag.Int("chaos.kills", 3, "kills that a measurement is made of")
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(asRole())
	}
	goleak.VerifyTestMain(m,
		// A link that is reset while it carries data leaves a goroutine of the proxy behind.
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*NoopToxic).Pipe"))
}

func asRole() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := remote.RunChild(ctx, os.Stdin, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return fault.KindOf(err).ExitCode()
}

// patience bounds every wait of these tests; none of them comes near it.
const patience = 2 * 60e9

// bounded returns a context that ends with the test, or with patience.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
