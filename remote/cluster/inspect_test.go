package cluster

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/etcdtest"
)

// Each server of a cluster says what it is. One that is away is named, and the others answer.
func TestInspect(t *testing.T) {
	servers := etcdtest.Start(t, 1, etcdtest.Options{})
	c := Config{Endpoints: append(servers.Endpoints(), "http://127.0.0.1:9"), Prefix: Prefix("doctor")}
	list, alarms, err := Inspect(t.Context(), c)
	if err != nil || len(alarms) > 0 || len(list) != 2 {
		t.Fatalf("%v, alarms %v, %v", list, alarms, err)
	}
	if s := list[0]; s.Err != nil || s.Endpoint != c.Endpoints[0] || s.Version == "" || s.Bytes <= 0 || !s.Leads || s.Learns {
		t.Errorf("the server that lives: %+v", s)
	}
	if s := list[1]; !errors.Is(s.Err, fault.Unavailable) || s.Version != "" {
		t.Errorf("the server that is away: %+v", s)
	}
}
