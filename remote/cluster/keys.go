package cluster

import (
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
	desiredKey  = "/ps_desired"
	wantedKey   = "/trainers_desired"
	serversKey  = "/ps/"
	lockKey     = "/master/lock"
	addressKey  = "/master/addr"
	trainersKey = "/trainer/"
	commitKey   = "/task_queues" // names the last transaction of State
	stateKey    = "/task_queues/"
	maxMembers  = 1 << 16 // pservers or trainers of one job
	maxPrefix   = 512     // bytes
)

// roleKeys are where the members of each role are, and their loss records.
var roleKeys = []string{"/master", "/ps", "/trainer"}

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
	m := Member{Role: job.Role_PSERVER}
	digits, ok := strings.CutPrefix(key, serversKey)
	if !ok {
		m.Role = job.Role_TRAINER
		if digits, ok = strings.CutPrefix(key, trainersKey); !ok {
			return Member{}, false
		}
	}
	index, err := strconv.ParseUint(digits, 10, 16)
	m.Index = int(index)
	return m, err == nil && memberKey(m) == key
}

// lossKey returns where the loss record of a member is.
func lossKey(m Member) string {
	switch m.Role {
	case job.Role_PSERVER:
		return "/ps" + lossSuffix + strconv.Itoa(m.Index)
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

// A lossRecord tells what became of the holders of a member's key. It has no lease, so it stays when the key goes. While the key is absent, the
// record tells whether its last holder was lost or has left.
type lossRecord struct {
	joined bool // the last holder has not left
	losses int  // holders before the last one that were lost
}

const (
	recordJoined = "joined"
	recordLeft   = "left"
)

// String is the value in the store: "joined 2".
func (r lossRecord) String() string {
	if r.joined {
		return fmt.Sprint(recordJoined, " ", r.losses)
	}
	return fmt.Sprint(recordLeft, " ", r.losses)
}

// parseLossRecord reads a record. Any other text, and no text, is the record of a member that never joined.
func parseLossRecord(text string) lossRecord {
	how, digits, _ := strings.Cut(text, " ")
	losses, err := strconv.Atoi(digits)
	if err != nil || losses < 0 {
		return lossRecord{}
	}
	return lossRecord{joined: how == recordJoined, losses: losses}
}

// total returns how many holders were lost, when there is no key now.
func (r lossRecord) total() int {
	if r.joined {
		return r.losses + 1
	}
	return r.losses
}
