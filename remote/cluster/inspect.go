package cluster

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/edl-go/edl/fault"
)

// A Server is what one server of etcd says of itself.
type Server struct {
	Endpoint string
	Version  string
	Bytes    int64         // of its data on disk
	Answer   time.Duration // how long it took to answer
	Leads    bool
	Learns   bool  // it has no vote yet
	Err      error // it has not answered; then nothing else is known
}

// inspectTime bounds the answer of one server.
const inspectTime = 3 * time.Second

// Inspect asks each server of an etcd cluster how it is, and the cluster for its alarms, such as "NOSPACE at member 1f". The prefix of c says where a read is
// tried, as every job does one. The error is why that, or the alarms, cannot be read; the servers are listed all the same.
func Inspect(ctx context.Context, c Config) (servers []Server, alarms []string, err error) {
	r, err := Open(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = r.Close() }()
	s, ok := r.(*registry)
	if !ok {
		return nil, nil, fault.E(fault.Internal, fault.Gotf("a registry of type %T", r))
	}
	store, ok := s.store.(*etcdStore)
	if !ok {
		return nil, nil, fault.E(fault.Internal, fault.Gotf("a store of type %T", s.store))
	}
	for _, endpoint := range c.Endpoints {
		began := time.Now()
		within, cancel := context.WithTimeout(ctx, inspectTime)
		status, err := store.client.Status(within, endpoint)
		cancel()
		one := Server{Endpoint: endpoint, Answer: time.Since(began)}
		if err != nil {
			one.Err = etcdFault("etcd at "+endpoint, err)
		} else {
			one.Version, one.Bytes, one.Leads, one.Learns = status.Version, status.DbSize, status.Leader == status.Header.MemberId, status.IsLearner
		}
		servers = append(servers, one)
	}
	within, cancel := context.WithTimeout(ctx, inspectTime)
	defer cancel()
	list, err := store.client.AlarmList(within)
	if err != nil {
		return servers, nil, etcdFault("alarms of etcd", err)
	}
	for _, a := range list.Alarms {
		if a.Alarm != etcdserverpb.AlarmType_NONE {
			alarms = append(alarms, fmt.Sprintf("%s at member %x", a.Alarm, a.MemberID))
		}
	}
	return servers, alarms, nil
}
