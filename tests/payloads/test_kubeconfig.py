# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubeconfigs: what kubeadm and client-go write is read, everything else is refused by its line."""

import base64
import json
import os
import shutil
import tempfile
import unittest

from nodeshare.kube import kubeconfig

KUBEADM = """apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {ca}
    server: https://10.89.77.1:6643
  name: default-cluster
contexts:
- context:
    cluster: default-cluster
    namespace: default
    user: default-auth
  name: default-context
current-context: default-context
kind: Config
preferences: {{}}
users:
- name: default-auth
  user:
    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem
    client-key: /var/lib/kubelet/pki/kubelet-client-current.pem
""".format(ca=base64.b64encode(b"CA PEM").decode())


class Kubeconfig(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)

    def load(self, text):
        path = os.path.join(self.directory, "kubelet.conf")
        with open(path, "w") as stream:
            stream.write(text)
        return kubeconfig.load(path)

    def refused(self, text):
        with self.assertRaises(kubeconfig.KubeconfigError) as caught:
            self.load(text)
        self.assertIn("kubelet.conf", str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))
        return str(caught.exception)

    def test_what_kubeadm_writes_is_read(self):
        found = self.load(KUBEADM)
        self.assertEqual(
            found,
            kubeconfig.Credentials(
                "https://10.89.77.1:6643",
                ca_pem="CA PEM",
                cert_file="/var/lib/kubelet/pki/kubelet-client-current.pem",
                key_file="/var/lib/kubelet/pki/kubelet-client-current.pem",
            ),
        )

    def test_indented_lists_quotes_comments_and_relative_paths_are_read(self):
        text = KUBEADM.replace("- context:", "  - context:").replace("    cluster: def", "      cluster: def")
        text = text.replace("    namespace: default\n", "").replace("    user: def", "      user: def")
        text = text.replace("  name: default-context", '    name: "default-context"')
        text = "# made by hand\n" + text.replace("client-key: /var/lib/kubelet/pki/", "client-key: 'pki/")
        text = text.replace("client-key: 'pki/kubelet-client-current.pem", "client-key: 'pki/kubelet.pem'")
        self.assertEqual(self.load(text).key_file, os.path.join(self.directory, "pki/kubelet.pem"))

    def test_json_is_read(self):
        pem = base64.b64encode(b"PEM").decode()
        data = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": "https://h:1", "certificate-authority": "ca.crt"}}],
            "users": [{"name": "u", "user": {"client-certificate-data": pem, "client-key-data": pem}}],
        }
        found = self.load(json.dumps(data))
        self.assertEqual((found.ca_file, found.cert_pem), (os.path.join(self.directory, "ca.crt"), "PEM"))

    def test_an_insecure_or_incomplete_file_is_refused(self):
        insecure = KUBEADM.replace("    server:", "    insecure-skip-tls-verify: true\n    server:")
        self.assertIn("insecure", self.refused(insecure))
        self.assertIn("https", self.refused(KUBEADM.replace("https://", "http://")))
        self.assertIn("no entry named", self.refused(KUBEADM.replace("context: default-context", "context: x")))
        self.assertIn("current-context", self.refused(KUBEADM.replace("current-context: default-context\n", "")))
        self.assertIn("client-key", self.refused(KUBEADM.replace("client-key:", "client-kex:")))
        self.assertIn("base64", self.refused(KUBEADM.replace("authority-data: ", "authority-data: x")))

    def test_yaml_beyond_the_plain_shape_is_refused_by_line(self):
        for old, new in (
            ("name: default-cluster", "name: &a default-cluster"),
            ("kind: Config", "kind: |"),
            ("kind: Config", "kind: {a: b}"),
            ("kind: Config", "kind: !!str x"),
            ("kind: Config", "kind"),
            ("kind: Config", "kind: Config\nkind: Config"),
            ("kind: Config", "\tkind: Config"),
            ("kind: Config", "kind: Config # why"),
            ("kind: Config", "   kind: Config"),
        ):
            with self.subTest(new=new):
                self.assertIn("line ", self.refused(KUBEADM.replace(old, new)))

    def test_hostile_files_end_in_an_error(self):
        deep = "\n".join(" " * n + "a:" for n in range(100))
        for text in ("", "\x00", "- " * 100, "a:\n" * 3000, deep, "{", "{}", "[]"):
            with self.subTest(text=text[:20]):
                self.refused(text)

    def test_a_missing_file_is_named(self):
        with self.assertRaises(kubeconfig.KubeconfigError) as caught:
            kubeconfig.load("/nonexistent/kubelet.conf")
        self.assertIn("/nonexistent/kubelet.conf: no such file", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
