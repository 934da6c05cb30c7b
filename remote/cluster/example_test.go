package cluster_test

import (
	"context"
	"fmt"
	"log"

	"github.com/edl-go/edl/remote/cluster"
)

// Two roles of a job in one process: a pserver announces itself, and a trainer finds it.
func Example() {
	ctx := context.Background()
	store := cluster.NewMemory()
	pserver, err := store.Open(cluster.Prefix("mnist"))
	if err != nil {
		log.Fatal(err)
	}
	defer pserver.Close()
	trainer, err := store.Open(cluster.Prefix("mnist"))
	if err != nil {
		log.Fatal(err)
	}
	defer trainer.Close()

	if err := pserver.SetDesired(ctx, 1); err != nil {
		log.Fatal(err)
	}
	held, err := pserver.JoinServer(ctx, cluster.AnyIndex, "10.0.0.7:7001")
	if err != nil {
		log.Fatal(err)
	}
	n, err := trainer.Desired(ctx)
	if err != nil {
		log.Fatal(err)
	}
	addresses, err := trainer.Servers(ctx, n)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(held.Member(), "at", addresses[0])
	// Output: pserver 0 at 10.0.0.7:7001
}
