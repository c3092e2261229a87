# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of `node_state`: digests first, contents only where they are missing, and a copy of the record.

A call that changes nothing is one module call. Contents travel in one bundle by the connection's own file transfer,
never as arguments, which would end in logs. After a change the new parts of the node's record are fetched the same way.
"""

from __future__ import annotations

import getpass
import os
import socket
import tarfile
import tempfile
import time
import typing as t

from ansible import constants as C  # noqa: N812
from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.converged.hpc.plugins.module_utils._record.model.errors import RecordError
from ansible_collections.converged.hpc.plugins.module_utils._record.request.argument_spec import ARGUMENT_SPEC
from ansible_collections.converged.hpc.plugins.module_utils._record.request.sources import Source, expand
from ansible_collections.converged.hpc.plugins.module_utils._record.store.controller_copy import LocalCopy, unpack
from ansible_collections.converged.hpc.plugins.plugin_utils._planned import finished

COPY_DIR = "~/.local/state/converged.hpc/record"


class ActionModule(ActionBase):
    """One result for one call, however many module calls it takes."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp: t.Any = None, task_vars: t.Optional[t.Dict[str, t.Any]] = None) -> t.Dict[str, t.Any]:
        """Send contents, run the module, and keep the copy of the record; Ansible calls this."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        try:
            return finished(self, self._run(task_vars), task_vars)
        except RecordError as error:
            raise AnsibleActionFail(str(error)) from error
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)

    def _run(self, task_vars: t.Dict[str, t.Any]) -> t.Dict[str, t.Any]:
        arguments = self.validate_argument_spec(ARGUMENT_SPEC)[1]
        if arguments["state"] == "present" and not arguments["role"]:
            raise AnsibleActionFail("role: name the role whose part of the record this is")
        sources = self._sources(arguments)
        copy = LocalCopy(self._copy_folder(arguments, task_vars))
        call = _Call(arguments, sources, copy)
        result = self._call(call, task_vars)
        if result.get("wants_record"):
            call.sent["record"] = self._send(copy.read(), "record.tar")
            result = self._call(call, task_vars)
        if result.get("missing"):
            call.uploaded = result["missing"]
            call.sent["bundle"] = self._send({name: sources[name] for name in result["missing"]}, "bundle.tar")
            self._ask_for_export(call)
            result = self._call(call, task_vars)
            if result.get("missing"):
                raise AnsibleActionFail("the node changed while contents were sent: run again")
        if not self._task.check_mode and result.get("failed"):
            self._save_what_is_recorded(call, result, task_vars)
        elif not self._task.check_mode:
            self._update_copy(call, result, task_vars)
        return self._finish(result, call)

    # What to send

    def _sources(self, arguments: t.Dict[str, t.Any]) -> t.Dict[str, Source]:
        """Return the contents of all files, by digest. Replace `files` by what the module needs to know of them."""
        found: t.Dict[str, Source] = {}
        directories: t.List[t.Dict[str, t.Any]] = []
        items: t.List[t.Dict[str, t.Any]] = []
        for item in arguments["files"]:
            src, content = item.pop("src", None), item.pop("content", None)
            if (src is None) == (content is None):
                raise AnsibleActionFail(f"{item['path']}: give either src or content")
            for path, source in expand(item["path"], self._real_path(src) if src else None, content):
                if source is None:
                    directories.append({"path": path})
                    continue
                found[source.sha256] = source
                items.append(dict(item, path=path, sha256=source.sha256, size=source.size))
        named = {item["path"] for item in arguments["directories"]}
        arguments["files"], arguments["_directories"] = (
            items,
            [item for item in directories if item["path"] not in named],
        )
        return found

    def _real_path(self, src: str) -> str:
        """As `ansible.builtin.copy` finds and decrypts a source."""
        try:
            found = self._find_needle("files", src)
        except AnsibleError as error:
            raise AnsibleActionFail(f"src {src}: {error}") from error
        return found if os.path.isdir(found) else self._loader.get_real_file(found)

    def _copy_folder(self, arguments: t.Dict[str, t.Any], task_vars: t.Dict[str, t.Any]) -> str:
        folder = arguments.pop("record_copy_dir") or task_vars.get("converged_record_copy_dir") or COPY_DIR
        folder = os.path.expanduser(self._templar.template(folder))
        # A record is that of the host where the module runs, which a loop over hosts gives in delegate_to.
        host = (self._task.delegate_to or task_vars["inventory_hostname"]).replace("/", "_")
        return os.path.join(folder, host if host.strip(".") else f"_{host}")

    # Calls and transfers

    def _call(self, call: _Call, task_vars: t.Dict[str, t.Any]) -> t.Dict[str, t.Any]:
        name = "converged.hpc.node_state"
        return self._execute_module(module_name=name, module_args=call.module_arguments(), task_vars=task_vars)

    def _remote_path(self, name: str) -> str:
        shell = self._connection._shell
        if shell.tmpdir is None:
            self._make_tmp_path()
        return shell.join_path(shell.tmpdir, name)

    def _send(self, contents: t.Mapping[str, t.Union[bytes, Source]], name: str) -> str:
        """All contents in one file, in the node's temporary directory."""
        remote = self._remote_path(name)
        fd, local = tempfile.mkstemp(dir=C.DEFAULT_LOCAL_TMP)
        try:
            with os.fdopen(fd, "wb") as file, tarfile.open(fileobj=file, mode="w:") as archive:
                for member, content in contents.items():
                    source = Source.of_bytes(content) if isinstance(content, bytes) else content
                    source.add_to(archive, member)
            self._transfer_file(local, remote)
        finally:
            os.unlink(local)
        self._fixup_perms2((self._connection._shell.tmpdir, remote), execute=False)
        return remote

    def _ask_for_export(self, call: _Call) -> None:
        call.sent.update(export=self._remote_path("export.tar"), have=call.copy.parts(), have_id=call.copy.identity())

    # The copy of the record

    def _save_what_is_recorded(self, call: _Call, result: t.Dict[str, t.Any], task_vars: t.Dict[str, t.Any]) -> None:
        """Save the record of a failed run, which has changed the node, too. Report only the error of the run itself."""
        self._ask_for_export(call)
        call.sent["only_export"] = True
        try:
            answer = self._call(call, task_vars)
            if answer.get("record"):
                self._update_copy(call, answer, task_vars)
        except (AnsibleError, RecordError, OSError) as error:
            result.setdefault("warnings", []).append(f"the record's copy was not brought up to date: {error}")

    def _update_copy(self, call: _Call, result: t.Dict[str, t.Any], task_vars: t.Dict[str, t.Any]) -> None:
        record = result.get("record")
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        if record is None:
            call.copy.set_aside(f"ended-{stamp}")
            return
        if call.copy.is_complete(record["id"], record["fingerprint"]):
            return
        if not record["exported"]:
            self._ask_for_export(call)
            call.sent["only_export"] = True
            answer = self._call(call, task_vars)
            if answer.get("failed") or not answer.get("record"):
                raise AnsibleActionFail(f"the record's copy could not be fetched: {answer.get('msg', 'it is gone')}")
            record = answer["record"]
        fd, local = tempfile.mkstemp(dir=C.DEFAULT_LOCAL_TMP)
        os.close(fd)
        try:
            self._connection.fetch_file(call.sent["export"], local)
            call.copy.merge(record["id"], unpack(local), stamp=stamp)
        finally:
            os.unlink(local)
        if not call.copy.is_complete(record["id"], record["fingerprint"]):
            raise AnsibleActionFail(
                f"the record's copy in {call.copy.folder} is not complete: move it away and run again"
            )

    def _finish(self, result: t.Dict[str, t.Any], call: _Call) -> t.Dict[str, t.Any]:
        """Return the result for people: diffs completed with contents of the controller, nothing of the transfers."""
        for change in result.get("diff", []):
            source = call.sources.get(change.pop("sha256", ""))
            if source is not None:
                change["after"] = source.shown()
        result.pop("record", None)
        result.pop("invocation", None)
        if not result.get("failed") and call.arguments["state"] == "present":
            sent = [call.sources[name] for name in call.uploaded]
            result["uploaded"] = {"contents": len(sent), "bytes": sum(source.size for source in sent)}
        return result


class _Call:
    """One task's arguments, and what the module is told besides."""

    def __init__(self, arguments: t.Dict[str, t.Any], sources: t.Dict[str, Source], copy: LocalCopy) -> None:
        self.arguments, self.sources, self.copy = arguments, sources, copy
        self.uploaded: t.List[str] = []
        self.hidden: t.Dict[str, str] = {}
        for at, item in enumerate(arguments["lines"]):
            if item["secret"] and item["line"] is not None:
                self.hidden[str(at)] = item["line"]
                item["line"] = None
        self.sent: t.Dict[str, t.Any] = {
            "operator": f"{getpass.getuser()}@{socket.gethostname()}",
            "files": arguments.pop("files"),
            "directories": arguments.pop("_directories"),
            "copy": bool(copy.identity()),
        }

    def module_arguments(self) -> t.Dict[str, t.Any]:
        """For `_execute_module`, which adds to what it is given."""
        # An option that was not given is None here, which is none of the choices that the module knows.
        given = {
            name: [_given(item) for item in value] if isinstance(value, list) else value
            for name, value in self.arguments.items()
        }
        return dict(given, _sent=dict(self.sent), _lines=dict(self.hidden))


def _given(item: t.Any) -> t.Any:
    return {name: value for name, value in item.items() if value is not None} if isinstance(item, dict) else item
