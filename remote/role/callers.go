package role

import (
	"context"
	"path"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/wire"
)

// Roles as certificates name them.
const (
	aListener    = "listener"
	aCoordinator = "coordinator"
	aTrainer     = "trainer"
	aPserver     = "pserver"
	aStandby     = "standby" // also when it has taken the place of its pserver
)

// callers says who may call each method of the services of roles. Only a coordinator begins and ends generations, so only it names a fence that counts.
var callers = map[string][]string{
	"Coordinator/Join":             {aTrainer},
	"Coordinator/News":             {aTrainer},
	"Coordinator/ReportDataset":    {aTrainer},
	"Coordinator/GetTask":          {aTrainer},
	"Coordinator/TaskFailed":       {aTrainer},
	"Coordinator/RequestSaveModel": {aTrainer},
	"Coordinator/ReportSteps":      {aTrainer},
	"Coordinator/Evaluate":         {aTrainer},
	"Coordinator/NextFeed":         {aTrainer},
	"Coordinator/Permit":           {aTrainer},
	"Coordinator/Leave":            {aTrainer},
	"Coordinator/Placement":        {aTrainer},
	"Coordinator/Checkpoint":       {aTrainer, aListener, aPserver, aStandby}, // a trainer when all are told to end, a pserver when it is
	"Coordinator/Feed":             {aListener},
	"Coordinator/Finish":           {aListener},
	"Coordinator/Acknowledge":      {aListener},
	"Coordinator/Watch":            {aListener},
	"Coordinator/Queues":           {aListener},
	"Coordinator/GoBack":           {aListener},
	"Coordinator/Move":             {aListener},

	"ParameterServer/SendVariable": {aTrainer, aListener}, // a listener sends the state that a job begins with
	"ParameterServer/SendBarrier":  {aTrainer},
	"ParameterServer/GetVariable":  {aTrainer, aCoordinator, aPserver, aStandby},
	"ParameterServer/GetRows":      {aTrainer},
	"ParameterServer/CopyRows":     {aPserver, aStandby},
	"ParameterServer/OpenData":     {aTrainer},
	"ParameterServer/Freeze":       {aCoordinator},
	"ParameterServer/Resume":       {aCoordinator},
	"ParameterServer/Ledger":       {aCoordinator, aListener},
	"ParameterServer/Cut":          {aCoordinator},
	"ParameterServer/Hold":         {aCoordinator},
	"ParameterServer/Restore":      {aCoordinator, aListener},
	"ParameterServer/Pace":         {aTrainer},
	"ParameterServer/Counted":      {aTrainer},
	"ParameterServer/ShareTotals":  {aTrainer},
	"ParameterServer/Prepare":      {aListener},
	"ParameterServer/Arrived":      {aCoordinator},
	"ParameterServer/Complete":     {aTrainer},
	"ParameterServer/Follow":       {aStandby},
	"ParameterServer/TakeOver":     {aListener},
	"ParameterServer/Status":       {aListener},
}

// mayCall refuses a call of a role that is none of the callers of its method. method is a full one of gRPC. Where callers are not asked, everybody may call.
func mayCall(ctx context.Context, method string) error {
	name, asked := wire.Caller(ctx)
	if !asked {
		return nil
	}
	who := name.Role
	if name.Kind == credential.Listener {
		who = aListener
	}
	service := path.Dir(method)
	method = service[strings.LastIndexAny(service, "./")+1:] + "/" + path.Base(method)
	if may := callers[method]; !slices.Contains(may, who) {
		return fault.E(fault.Denied, fault.At(method), fault.Got("a call of "+name.String()), fault.Want("one of "+strings.Join(may, " or ")))
	}
	return nil
}

// newServer returns a server that asks who calls, and whose handlers open what the listener of the role allows.
func newServer(r *runner) *grpc.Server {
	return wire.NewServer(r.side, wire.Around(func(ctx context.Context, method string, handle func(context.Context) error) error {
		if err := mayCall(ctx, method); err != nil {
			return err
		}
		return handle(confined(ctx, r))
	})...)
}
