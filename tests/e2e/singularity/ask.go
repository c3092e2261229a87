// Copyright (c) 2026, converged.hpc maintainers
// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// ask prints, as JSON, what a runtime of CRI v1alpha2 says of itself: kubelets and crictl of today no longer ask so.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	cri "k8s.io/kubernetes/pkg/kubelet/apis/cri/runtime/v1alpha2"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	connection, err := grpc.DialContext(ctx, "unix://"+os.Args[1], grpc.WithInsecure(), grpc.WithBlock())
	if err != nil {
		log.Fatalf("%s: %v", os.Args[1], err)
	}
	runtime := cri.NewRuntimeServiceClient(connection)
	version, err := runtime.Version(ctx, &cri.VersionRequest{})
	if err != nil {
		log.Fatalf("Version: %v", err)
	}
	status, err := runtime.Status(ctx, &cri.StatusRequest{})
	if err != nil {
		log.Fatalf("Status: %v", err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]interface{}{"version": version, "status": status.Status}); err != nil {
		log.Fatal(err)
	}
}
