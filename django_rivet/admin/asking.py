"""What operators ask for: a question for each button, and one way to do it."""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from django_rivet.actors.exceptions import ActorNotFoundError
from django_rivet.admin import words
from django_rivet.admin.handlers import failed_handler, path_of_handler
from django_rivet.admin.operations import (
    HANDLER_OPERATIONS,
    OPERATIONS,
    Instruction,
    Operation,
    OutdatedPageError,
    operate,
    owed,
)
from django_rivet.admin.text import visible
from django_rivet.engine.exceptions import RivetError
from django_rivet.models import Actor
from django_rivet.runtime.operating import MAX_NOTE, MAX_PERSON

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Actor]
else:
    _ModelAdmin = admin.ModelAdmin


class WhyForm(forms.Form):
    """The reason, or the note."""

    text = forms.CharField(
        max_length=MAX_NOTE,
        widget=forms.Textarea(attrs={"rows": 3, "class": "vLargeTextField", "autofocus": True}),
    )


class AskedActors(_ModelAdmin):
    """The views behind the buttons of an actor's page."""

    def has_operation_permission(self, request: HttpRequest, operation: Operation) -> bool:
        """Each button asks for its own permission, and for that to see the actor."""
        return self.has_view_permission(request) and request.user.has_perm(operation.permission)

    def is_offered(self, request: HttpRequest, actor: Actor, operation: Operation) -> bool:
        return operation.fits(actor.run) and self.has_operation_permission(request, operation)

    def operation_urls(self) -> list[URLPattern]:
        return [
            path(
                f"<uuid:actor_id>/{operation.name}/",
                self.admin_site.admin_view(
                    require_http_methods(["GET", "HEAD", "POST"])(partial(self.operation_view, operation=operation))
                ),
                name=_url_name(operation.name),
            )
            for operation in (*OPERATIONS, *HANDLER_OPERATIONS)
        ]

    def button(self, operation: Operation, actor: Actor, handler_id: int = 0) -> dict[str, Any]:
        url = self._url(operation.name, actor) + (f"?handler={handler_id}" if handler_id else "")
        return {"label": operation.label, "url": url, "is_grave": operation.is_grave}

    def operation_view(self, request: HttpRequest, actor_id: uuid.UUID, operation: Operation) -> HttpResponse:
        """GET asks whether to go on, POST does it."""
        if not self.has_operation_permission(request, operation):
            raise PermissionDenied
        actor = self.get_object(request, str(actor_id))
        if actor is None:
            return self.not_found(request, str(actor_id))
        handler_id = _number(request.POST.get("handler") or request.GET.get("handler", ""))
        path = path_of_handler(actor.pk, handler_id) if operation.concerns_handler else ""
        form = WhyForm(request.POST or None) if operation.asks_for else None
        if form is not None:
            form.fields["text"].label = str(operation.asks_for)
        if request.method == "POST" and (form is None or form.is_valid()):
            instruction = Instruction(
                by=str(request.user.get_username())[:MAX_PERSON],
                path=path,
                text=form.cleaned_data["text"] if form is not None else "",
                seen=request.POST.get("seen", ""),
            )
            return self._operate(request, actor, operation, instruction)
        handler = failed_handler(actor.pk, handler_id) if operation.concerns_handler else None
        context = {
            **self.page_context(request),
            "title": operation.label,
            "actor": actor,
            "actor_url": self._url("change", actor),
            "operation": operation,
            "has_effect": operation.fits(actor.run) and (handler is not None or not operation.concerns_handler),
            "status": words.badge(actor.run.status, actor.run.get_status_display()),
            "debts": owed(actor.pk) if operation.is_grave and not operation.concerns_handler else 0,
            "handler": handler,
            "form": form,
            # A form that comes back for want of a reason still is about what was looked at first.
            "seen": request.POST.get("seen") or operation.seen(actor.run, path),
        }
        return TemplateResponse(request, "admin/django_rivet/operation.html", context)

    # What all pages of an actor need ---------------------------------------------------------

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Actor | None:
        actor = super().get_object(request, object_id, from_field)
        if actor is not None:
            # Here an actor is only ever looked at, by Django's own templates and log entries too.
            actor.key = visible(actor.key)
        return actor

    def page_context(self, request: HttpRequest) -> dict[str, Any]:
        request.current_app = self.admin_site.name  # read by {% url %}
        return {**self.admin_site.each_context(request), "opts": self.opts}

    def not_found(self, request: HttpRequest, object_id: str) -> HttpResponse:
        text = gettext("There is no actor with the instance id “%(id)s”; perhaps it was destroyed.")
        self.message_user(request, text % {"id": visible(object_id)}, messages.WARNING)
        return HttpResponseRedirect(reverse("admin:django_rivet_actor_changelist", current_app=self.admin_site.name))

    # Below: how it is done -------------------------------------------------------------------

    def _operate(
        self, request: HttpRequest, actor: Actor, operation: Operation, instruction: Instruction
    ) -> HttpResponse:
        try:
            done = operate(operation, actor, instruction, lambda: self._log(request, actor, operation, instruction))
        except ActorNotFoundError:
            return self.not_found(request, str(actor.pk))
        except OutdatedPageError:
            text = gettext("Nothing was changed: something has happened since you were asked. Look again, please.")
            self.message_user(request, text, messages.WARNING)
        except RivetError as error:
            text = gettext("Nothing was changed: %(error)s") % {"error": visible(error)}
            self.message_user(request, text, messages.ERROR)
        except OperationalError as error:
            text = gettext("Nothing was changed, the database was busy: %(error)s") % {"error": error}
            self.message_user(request, text, messages.ERROR)
        else:
            if done:
                self.message_user(request, str(operation.done), messages.SUCCESS)
            else:
                text = gettext("Nothing was changed: the status of the workflow does not allow “%(label)s”.")
                self.message_user(request, text % {"label": operation.label}, messages.WARNING)
        return HttpResponseRedirect(self._url("change", actor))

    def _log(self, request: HttpRequest, actor: Actor, operation: Operation, instruction: Instruction) -> None:
        operator = request.user.pk
        assert operator is not None  # the site lets in nobody else
        LogEntry.objects.create(
            user_id=operator,
            content_type_id=ContentType.objects.get_for_model(Actor).pk,
            object_id=str(actor.pk),
            object_repr=str(actor)[:200],
            action_flag=CHANGE,
            change_message=_told(operation, instruction),
        )

    def _url(self, name: str, actor: Actor) -> str:
        return reverse(f"admin:{_url_name(name)}", args=[actor.pk], current_app=self.admin_site.name)


def _url_name(name: str) -> str:
    return f"django_rivet_actor_{name.replace('-', '_')}"


def _number(text: str) -> int:
    """0, which is nobody's number, where it is none."""
    return int(text) if text.isdecimal() and len(text) <= 18 else 0


def _told(operation: Operation, instruction: Instruction) -> str:
    """``Skip handler of step “order/charge”: refunded by phone``."""
    told = str(operation.label)
    if instruction.path:
        told = gettext("%(label)s of step “%(step)s”") % {"label": told, "step": visible(instruction.path)}
    return f"{told}: {visible(instruction.text)}" if instruction.text else told
