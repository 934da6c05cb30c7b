package remote_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/remote"
)

// patience bounds every wait of these tests; none of them comes near it.
const patience = 60 * time.Second

// bounded returns a context that ends with the test, or with patience.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// listener starts a listener that ends with the test.
func listener(t testing.TB, options ...remote.Option) *remote.Listener {
	t.Helper()
	l, err := remote.Listen(bounded(t), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("the end of the listener: %v", err)
		}
	})
	return l
}

// executorOf connects to a listener until the test ends.
func executorOf(t testing.TB, l *remote.Listener, spec *remote.JobSpec) *remote.Executor {
	t.Helper()
	if spec.RoundDeadline == nil {
		spec.RoundDeadline = durationpb.New(patience)
	}
	e, err := remote.NewExecutor(l.Address(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("the end of the executor: %v", err)
		}
	})
	return e
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// why says what a job waits for that a test has given up.
func why(client *remote.Client, id string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	answer, err := client.Why(ctx, id)
	return fmt.Sprintf("it waits for %v, %v", answer, err)
}
