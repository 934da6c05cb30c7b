package cluster

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// root is where all keys of EDL are.
const root = "/edl/"

// nodesPrefix is where the nodes of the cluster are, whatever the prefix of the job.
const nodesPrefix = root + "nodes/"

// Keys of a job, below its prefix. WatchLost compares the key of a member with its loss record. Both lie below the same key of roleKeys, so that one
// watch shows the changes of both in order.
const (
	ownerKey    = "/listener"
	desiredKey  = "/ps_desired"
	wantedKey   = "/trainers_desired"
	eraKey      = "/era"
	serversKey  = "/ps/"
	standbysKey = "/standby/"
	lockKey     = "/master/lock"
	addressKey  = "/master/addr"
	trainersKey = "/trainer/"
	commitKey   = "/task_queues" // names the last transaction of State
	stateKey    = "/task_queues/"
	maxMembers  = 1 << 16 // pservers or trainers of one job
	maxPrefix   = 512     // bytes
)

// roleKeys are where the members of each role are, and their loss records.
var roleKeys = []string{"/master", "/ps", "/standby", "/trainer"}

// Prefix returns the key prefix of a job.
func Prefix(job string) string { return root + job }

var (
	legalPrefix = regexp.MustCompile(`^(/[A-Za-z0-9._-]+)+$`)
	legalID     = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)
)

// checkPrefix refuses a prefix whose keys could be those of nodes or of another job.
func checkPrefix(prefix string) error {
	if len(prefix) > maxPrefix || !legalPrefix.MatchString(prefix) || strings.HasPrefix(prefix+"/", nodesPrefix) {
		return fault.E(fault.InvalidArgument, fault.At("cluster"), fault.Got("key prefix "+fault.Quote(prefix)),
			fault.Want("/edl/<job>, of letters, digits, '.', '_' and '-', outside of "+nodesPrefix))
	}
	return nil
}

// memberKey returns where a member announces itself, below the prefix of the job.
func memberKey(m Member) string {
	switch m.Role {
	case job.Role_PSERVER:
		return serversKey + strconv.Itoa(m.Index)
	case job.Role_STANDBY:
		return standbysKey + strconv.Itoa(m.Index)
	case job.Role_TRAINER:
		return trainersKey + strconv.Itoa(m.Index)
	}
	return lockKey
}

// memberOf is the inverse of memberKey.
func memberOf(key string) (Member, bool) {
	if key == lockKey {
		return Member{Role: job.Role_COORDINATOR}, true
	}
	for _, role := range []job.Role{job.Role_PSERVER, job.Role_STANDBY, job.Role_TRAINER} {
		m := Member{Role: role}
		if digits, ok := strings.CutPrefix(key, strings.TrimSuffix(memberKey(m), "0")); ok {
			index, err := strconv.ParseUint(digits, 10, 16)
			m.Index = int(index)
			return m, err == nil && memberKey(m) == key
		}
	}
	return Member{}, false
}

// lossKey returns where the loss record of a member is.
func lossKey(m Member) string {
	switch m.Role {
	case job.Role_PSERVER:
		return "/ps" + lossSuffix + strconv.Itoa(m.Index)
	case job.Role_STANDBY:
		return "/standby" + lossSuffix + strconv.Itoa(m.Index)
	case job.Role_TRAINER:
		return "/trainer" + lossSuffix + strconv.Itoa(m.Index)
	}
	return "/master" + lossSuffix + "lock"
}

// lossSuffix follows the key of a role.
const lossSuffix = "_losses/"

// lossMember is the inverse of lossKey.
func lossMember(key string) (Member, bool) {
	role, name, ok := strings.Cut(key, lossSuffix)
	if !ok {
		return Member{}, false
	}
	return memberOf(role + "/" + name)
}

// A lossRecord tells what became of the holders of a member's key. It has no lease, so it stays when the key goes. It decides who has the place: the
// holder takes its key anew only while its record says joined, and whoever declares it lost or follows it changes the record first.
type lossRecord struct {
	how    string // joined: the last holder has neither left nor was declared lost; left; lost
	losses int    // holders before the last one that were lost
	as     int64  // incarnation of the last holder, if it has taken its key anew since; 0: the revision of the record, counted from over
	over   int64  // what incarnations of the era in which the record was written are greater than
}

const (
	recordJoined = "joined"
	recordLeft   = "left"
	recordLost   = "lost"
)

// String is the value in the store: "joined 2", "joined 2 as 57", or "joined 2 over 1099511627776".
func (r lossRecord) String() string {
	switch {
	case r.as != 0:
		return fmt.Sprint(r.how, " ", r.losses, " as ", r.as)
	case r.over != 0:
		return fmt.Sprint(r.how, " ", r.losses, " over ", r.over)
	}
	return fmt.Sprint(r.how, " ", r.losses)
}

// parseLossRecord reads a record. Any other text, and no text, is the record of a member that never joined.
func parseLossRecord(text string) lossRecord {
	how, rest, _ := strings.Cut(text, " ")
	rest, over, _ := strings.Cut(rest, " over ")
	digits, as, _ := strings.Cut(rest, " as ")
	r := lossRecord{how: how}
	losses, err := strconv.ParseInt(digits, 10, 32)
	r.losses = int(losses)
	for text, into := range map[string]*int64{as: &r.as, over: &r.over} {
		if err == nil && text != "" {
			*into, err = strconv.ParseInt(text, 10, 64)
		}
	}
	if err != nil || min(losses, r.as, r.over) < 0 || r.over > maxOver {
		return lossRecord{how: recordLeft}
	}
	return r
}

// joined reports whether the last holder has neither left nor was declared lost.
func (r lossRecord) joined() bool { return r.how == recordJoined }

// total returns how many holders were lost, when the last one does not hold the key any more.
func (r lossRecord) total() int {
	if r.how != recordLeft {
		return r.losses + 1
	}
	return r.losses
}

// incarnationOf returns the incarnation of the holder that a record tells of: the revision at which it joined.
func incarnationOf(record entry) int64 {
	r := parseLossRecord(record.value)
	return cmp.Or(r.as, r.over+record.modified)
}
